-- As lease_jobs, where some tasks, those in :longer (microseconds), get an end of their own.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  state = 'running',
  worker = (SELECT id FROM windlass_workers WHERE name = :worker),
  token = :base + id,
  attempts = attempts + 1,
  deliveries = deliveries + 1,
  lease_until = :ticks + (SELECT l.value FROM json_each(:longer) AS l WHERE l.key = task),
  own_lease = (SELECT l.value FROM json_each(:longer) AS l WHERE l.key = task)
WHERE id IN (SELECT value FROM json_each(:ids))
