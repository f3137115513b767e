-- Queues whose claimable head this worker may not run, or where a pause has parked it, with the best
-- waiting job that it may: [[priority, run_at, candidate, head, tenant, queue], …], and the tenant and
-- the queue to go on after, if any. In a queue that is held only jobs that hold it count.
-- Looks at no more than :most queues per task and owner, after :tenant and :queue by name. An owner is
-- a tenant, or NULL for all tenants.
-- Index expected: windlass_jobs_waiting_task, windlass_jobs_active, windlass_jobs_holding.
WITH RECURSIVE
step (owner, task, tenant, queue, n) AS (
  SELECT
    o.value, t.value, coalesce(o.value, :tenant),
    CASE WHEN o.value > :tenant THEN '' WHEN o.value < :tenant THEN NULL ELSE :queue END,
    0
  FROM json_each(:owners) AS o
  CROSS JOIN json_each(:tasks) AS t
  UNION ALL
  SELECT s.owner, s.task, w.tenant, w.queue, s.n + 1
  FROM step AS s
  CROSS JOIN windlass_jobs AS w ON w.id = coalesce(
    (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'waiting' AND i.task = s.task AND i.tenant = s.tenant AND i.queue > s.queue
      ORDER BY i.queue LIMIT 1
    ),
    CASE WHEN s.owner IS NULL THEN (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'waiting' AND i.queue IS NOT NULL AND i.task = s.task
        AND i.tenant > s.tenant
      ORDER BY i.tenant, i.queue LIMIT 1
    ) END
  )
  WHERE s.n < :most
)
SELECT CAST(json_array(
  json_group_array(json_array(c.priority, c.run_at, c.id, x.head, x.tenant, x.queue)),
  (SELECT min(tenant) FROM step WHERE n = :most),
  (SELECT min(queue) FROM step
   WHERE n = :most AND tenant = (SELECT min(tenant) FROM step WHERE n = :most))
) AS BLOB)
FROM (
  SELECT
    s.tenant AS tenant,
    s.queue AS queue,
    h.id AS head,
    CASE WHEN EXISTS (SELECT 1 FROM windlass_jobs WHERE holds = 1 AND queue >= '')
      AND EXISTS (
        SELECT 1 FROM windlass_jobs AS k
        WHERE k.holds = 1 AND k.queue = s.queue AND k.tenant = s.tenant
      )
    THEN (
      SELECT w.id FROM windlass_jobs AS w INDEXED BY windlass_jobs_holding
      WHERE w.holds = 1 AND w.queue = s.queue AND w.tenant = s.tenant
        AND w.state = 'waiting' AND w.task = s.task
        AND NOT EXISTS (
          SELECT 1 FROM json_each(w.flags) AS f
          WHERE f.value IN (SELECT value FROM json_each(:forbidden))
        )
      ORDER BY w.priority, w.run_at, w.id
      LIMIT 1
    )
    ELSE (
      SELECT w.id FROM windlass_jobs AS w
      WHERE w.state = 'waiting' AND w.task = s.task AND w.tenant = s.tenant
        AND w.queue = s.queue
        AND NOT EXISTS (
          SELECT 1 FROM json_each(w.flags) AS f
          WHERE f.value IN (SELECT value FROM json_each(:forbidden))
        )
      ORDER BY w.priority, w.run_at, w.id
      LIMIT 1
    ) END AS candidate
  FROM step AS s
  LEFT JOIN windlass_jobs AS h
    ON h.queue = s.queue AND h.tenant = s.tenant AND (h.state = 'ready' OR h.state = 'running')
  WHERE s.n > 0
    AND NOT EXISTS (
      SELECT 1 FROM windlass_paused AS p
      WHERE p.tenant = s.tenant AND p.kind = 'task' AND p.name = s.task
    )
    AND CASE
      WHEN h.id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM windlass_paused AS p
        WHERE p.tenant = s.tenant AND p.kind = 'queue' AND p.name = s.queue
      )
      ELSE h.state = 'ready' AND (
        h.task NOT IN (SELECT value FROM json_each(:tasks))
        OR EXISTS (
          SELECT 1 FROM windlass_paused AS p
          WHERE p.tenant = h.tenant AND p.kind = 'task' AND p.name = h.task
        )
        OR EXISTS (
          SELECT 1 FROM json_each(h.flags) AS f
          WHERE f.value IN (SELECT value FROM json_each(:forbidden))
        )
      )
    END
) AS x
CROSS JOIN windlass_jobs AS c ON c.id = x.candidate
