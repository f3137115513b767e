-- End deliveries of one claim whose chains go on; those that were asked to stop are left for a closer
-- look.
-- Index expected: the primary key.
DELETE FROM windlass_jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND token = :base + id AND state = 'running'
  AND cancel_requested = 0
