-- Forget kept jobs, by id.
-- Index expected: the primary key.
DELETE FROM windlass_history WHERE id IN (SELECT value FROM json_each(:ids))
