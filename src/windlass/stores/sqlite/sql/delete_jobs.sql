-- Take jobs out, by id.
-- Index expected: the primary key.
DELETE FROM windlass_jobs WHERE id IN (SELECT value FROM json_each(:ids))
