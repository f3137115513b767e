-- No lease of a job's own ends later than its length from now, where its worker may be dead.
-- Index expected: windlass_jobs_running.
UPDATE windlass_jobs SET lease_until = :ticks + own_lease
WHERE state = 'running' AND lease_until > :ticks + own_lease
  AND worker IN (
    SELECT id FROM windlass_workers WHERE expires_at <= :ticks OR expires_at > :ticks + lease
  )
