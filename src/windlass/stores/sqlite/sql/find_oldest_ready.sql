-- When the first ready job was due among those at the heads of :most tasks and priorities.
-- Index expected: windlass_jobs_ready, windlass_jobs_ready_others; one entry of each head.
WITH RECURSIVE
of_default (id, task, priority) AS (
  SELECT j.id, j.task, j.priority FROM windlass_jobs AS j
  WHERE j.id = (
    SELECT i.id FROM windlass_jobs AS i WHERE i.state = 'ready' AND i.tenant = ''
    ORDER BY i.task, i.priority, i.run_at LIMIT 1
  )
  UNION ALL
  SELECT j.id, j.task, j.priority FROM of_default AS h
  CROSS JOIN windlass_jobs AS j ON j.id = coalesce(
    (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant = '' AND i.task = h.task AND i.priority > h.priority
      ORDER BY i.priority, i.run_at LIMIT 1
    ),
    (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant = '' AND i.task > h.task
      ORDER BY i.task, i.priority, i.run_at LIMIT 1
    )
  )
  LIMIT :most
),
of_others (id, task, priority) AS (
  SELECT j.id, j.task, j.priority FROM windlass_jobs AS j
  WHERE j.id = (
    SELECT i.id FROM windlass_jobs AS i WHERE i.state = 'ready' AND i.tenant <> ''
    ORDER BY i.task, i.priority, i.run_at LIMIT 1
  )
  UNION ALL
  SELECT j.id, j.task, j.priority FROM of_others AS h
  CROSS JOIN windlass_jobs AS j ON j.id = coalesce(
    (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant <> '' AND i.task = h.task AND i.priority > h.priority
      ORDER BY i.priority, i.run_at LIMIT 1
    ),
    (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant <> '' AND i.task > h.task
      ORDER BY i.task, i.priority, i.run_at LIMIT 1
    )
  )
  LIMIT :most
)
SELECT min(j.run_at)
FROM (SELECT id FROM of_default UNION ALL SELECT id FROM of_others) AS h
CROSS JOIN windlass_jobs AS j ON j.id = h.id
WHERE (:task IS NULL OR j.task = :task)
  AND (:queue IS NULL OR j.queue = :queue)
  AND (:tenant IS NULL OR j.tenant = :tenant)
