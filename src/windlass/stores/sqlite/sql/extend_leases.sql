-- Give single leases, as [id, token, length], an end of their own; it never comes closer.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  lease_until = max(coalesce(lease_until, 0), :ticks + (p.value ->> 2)),
  own_lease = iif(coalesce(lease_until, 0) < :ticks + (p.value ->> 2), p.value ->> 2, own_lease)
FROM json_each(:leases) AS p
WHERE windlass_jobs.id = p.value ->> 0
  AND windlass_jobs.token = p.value ->> 1
  AND windlass_jobs.state = 'running'
