-- The number of a worker, if it is known.
-- Index expected: the unique name.
SELECT (SELECT id FROM windlass_workers WHERE name = :worker)
