-- In each of these queues where nothing is claimable or running, the best waiting job
-- becomes claimable; where the queue is held, the best of those that hold it.
-- Index expected: windlass_jobs_active, windlass_jobs_waiting, windlass_jobs_holding.
UPDATE windlass_jobs
SET state = 'ready'
WHERE id IN (
  SELECT CASE
    WHEN EXISTS (SELECT 1 FROM windlass_jobs AS k WHERE k.holds = 1 AND k.queue >= '')
      AND EXISTS (
        SELECT 1 FROM windlass_jobs AS k
        WHERE k.holds = 1 AND k.queue = q.name AND k.tenant = q.tenant
      )
    THEN (
      SELECT w.id FROM windlass_jobs AS w INDEXED BY windlass_jobs_holding
      WHERE w.holds = 1 AND w.queue = q.name AND w.tenant = q.tenant AND w.state = 'waiting'
      ORDER BY w.priority, w.run_at, w.id
      LIMIT 1
    )
    ELSE (
      SELECT w.id FROM windlass_jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
      ORDER BY w.priority, w.run_at, w.id
      LIMIT 1
    )
  END
  FROM {named} AS q
  WHERE NOT EXISTS (
      SELECT 1 FROM windlass_paused AS p
      WHERE p.tenant = q.tenant AND p.kind = 'queue' AND p.name = q.name
    )
    AND NOT EXISTS (
      SELECT 1 FROM windlass_jobs AS a
      WHERE a.queue = q.name AND a.tenant = q.tenant
        AND (a.state = 'ready' OR a.state = 'running')
    )
)
