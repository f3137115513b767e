-- The head of one of these queues goes back to waiting where a better job waits, the queue is paused,
-- or the head does not hold a queue that is held.
-- Index expected: windlass_jobs_active, windlass_jobs_waiting, windlass_jobs_holding.
UPDATE windlass_jobs
SET state = 'waiting'
WHERE id IN (
  SELECT h.id
  FROM {named} AS q
  CROSS JOIN windlass_jobs AS h ON h.queue = q.name AND h.tenant = q.tenant AND h.state = 'ready'
  WHERE CASE
    WHEN EXISTS (
      SELECT 1 FROM windlass_paused AS p
      WHERE p.tenant = h.tenant AND p.kind = 'queue' AND p.name = h.queue
    ) THEN true
    WHEN EXISTS (SELECT 1 FROM windlass_jobs AS k WHERE k.holds = 1 AND k.queue >= '')
      AND EXISTS (
        SELECT 1 FROM windlass_jobs AS k
        WHERE k.holds = 1 AND k.queue = h.queue AND k.tenant = h.tenant
      )
    THEN h.holds = 0 OR EXISTS (
      SELECT 1 FROM windlass_jobs AS w INDEXED BY windlass_jobs_holding
      WHERE w.holds = 1 AND w.queue = h.queue AND w.tenant = h.tenant AND w.state = 'waiting'
        AND (w.priority, w.run_at, w.id) < (h.priority, h.run_at, h.id)
    )
    ELSE EXISTS (
      SELECT 1 FROM windlass_jobs AS w
      WHERE w.state = 'waiting' AND w.queue = h.queue AND w.tenant = h.tenant
        AND (w.priority, w.run_at, w.id) < (h.priority, h.run_at, h.id)
    )
  END
)
