-- Give single leases, as [id, token, end], an end of their own; it never comes closer.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET lease_until = max(coalesce(lease_until, 0), p.value ->> 2)
FROM json_each(:leases) AS p
WHERE windlass_jobs.id = p.value ->> 0
  AND windlass_jobs.token = p.value ->> 1
  AND windlass_jobs.state = 'running'
