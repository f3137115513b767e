-- Hand these jobs to a worker; their leases end with the worker's.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  state = 'running',
  worker = (SELECT id FROM windlass_workers WHERE name = :worker),
  token = :base + id,
  attempts = attempts + 1,
  deliveries = deliveries + 1,
  lease_until = NULL
WHERE id IN (SELECT value FROM json_each(:ids))
