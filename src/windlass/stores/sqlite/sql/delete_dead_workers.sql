-- Forget those of these workers that hold nothing.
-- Index expected: the primary key, windlass_jobs_running.
DELETE FROM windlass_workers
WHERE id IN (SELECT value FROM json_each(:workers))
  AND NOT EXISTS (
    SELECT 1 FROM windlass_jobs AS j
    WHERE j.worker = windlass_workers.id AND j.state = 'running'
  )
