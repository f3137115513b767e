-- Forget overdue workers that hold nothing.
-- Index expected: windlass_jobs_running.
DELETE FROM windlass_workers
WHERE expires_at <= :now
  AND NOT EXISTS (
    SELECT 1 FROM windlass_jobs AS j
    WHERE j.worker = windlass_workers.id AND j.state = 'running'
  )
