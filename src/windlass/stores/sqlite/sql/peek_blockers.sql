-- Whether any job has named a chain.
-- Index expected: the primary key of windlass_blockers.
SELECT EXISTS (SELECT 1 FROM windlass_blockers)
