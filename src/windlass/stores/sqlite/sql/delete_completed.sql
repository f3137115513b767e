-- End deliveries of one claim.
-- Index expected: the primary key.
DELETE FROM windlass_jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND token = :base + id AND state = 'running'
