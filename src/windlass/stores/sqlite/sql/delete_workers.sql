-- Forget workers.
-- Index expected: the unique name.
DELETE FROM windlass_workers WHERE name IN (SELECT value FROM json_each(:workers))
