-- In each queue where nothing is claimable or running, the best waiting job becomes claimable.
-- Index expected: windlass_jobs_active, windlass_jobs_waiting.
UPDATE windlass_jobs
SET state = 'ready'
WHERE id IN (
  SELECT (
    SELECT w.id FROM windlass_jobs AS w
    WHERE w.state = 'waiting' AND w.queue = q.value
    ORDER BY w.priority, w.run_at, w.id
    LIMIT 1
  )
  FROM json_each(:queues) AS q
  WHERE q.value NOT IN (SELECT name FROM windlass_paused WHERE kind = 'queue')
    AND NOT EXISTS (
      SELECT 1 FROM windlass_jobs AS a
      WHERE a.queue = q.value AND (a.state = 'ready' OR a.state = 'running')
    )
)
