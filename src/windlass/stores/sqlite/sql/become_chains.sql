-- Jobs of no chain that are about to continue, given by their ids, begin one.
-- Index expected: the primary key.
INSERT INTO windlass_chains (id, state, tenant, key_window, task, payload, length, created_at)
SELECT j.id, 'open', j.tenant, 0, j.task, j.payload, 1, j.created_at
FROM json_each(:ids) AS i
CROSS JOIN windlass_jobs AS j ON j.id = i.value
