-- Delete chains, by id.
-- Index expected: the primary key.
DELETE FROM windlass_chains WHERE id IN (SELECT value FROM json_each(:ids))
