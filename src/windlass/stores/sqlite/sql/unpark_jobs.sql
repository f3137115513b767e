-- Jobs of a tenant's task that claims have parked are ready again.
-- Index expected: windlass_jobs_waiting.
UPDATE windlass_jobs
SET state = 'ready'
WHERE state = 'waiting' AND queue IS NULL AND tenant = :tenant AND task = :task
