-- The chains that begin with jobs which were just added, from :first to :last.
-- Index expected: windlass_jobs_chain.
INSERT INTO windlass_chains (id, state, tenant, key_window, task, payload, length, created_at)
SELECT id, 'open', tenant, 0, task, payload, 1, created_at
FROM windlass_jobs
WHERE id BETWEEN :first AND :last AND chain = id
