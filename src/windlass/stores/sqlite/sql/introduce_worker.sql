-- Remember which tasks a worker runs, and for which tenants (NULL for all).
-- Index expected: the unique name.
UPDATE windlass_workers SET tasks = :tasks, tenants = :tenants
WHERE name = :worker AND (tasks IS NOT :tasks OR tenants IS NOT :tenants)
