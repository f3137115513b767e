-- The id of the last job that was added.
-- Index expected: none; there is one row.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'windlass_jobs'), 0)
