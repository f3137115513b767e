-- Remember which tasks a worker runs.
-- Index expected: the unique name.
UPDATE windlass_workers SET tasks = :tasks WHERE name = :worker AND tasks IS NOT :tasks
