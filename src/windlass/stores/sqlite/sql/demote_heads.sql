-- The head of a queue goes back to waiting where a better job waits or the queue is paused.
-- Index expected: windlass_jobs_active, windlass_jobs_waiting.
UPDATE windlass_jobs
SET state = 'waiting'
WHERE state = 'ready'
  AND queue IN (SELECT value FROM json_each(:queues))
  AND (
    queue IN (SELECT name FROM windlass_paused WHERE kind = 'queue')
    OR EXISTS (
      SELECT 1 FROM windlass_jobs AS w
      WHERE w.state = 'waiting' AND w.queue = windlass_jobs.queue
        AND (w.priority, w.run_at, w.id)
          < (windlass_jobs.priority, windlass_jobs.run_at, windlass_jobs.id)
    )
  )
