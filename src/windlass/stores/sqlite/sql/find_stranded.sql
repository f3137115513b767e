-- Tasks with ready jobs, those behind the heads of their queues too, of a tenant for which none of the
-- workers runs them who are not in :dead; jobs that are paused with their task do not count. None
-- while one of those workers has not said what it runs. Of a task that no worker runs for all tenants
-- the first thousand jobs of other tenants are looked at.
-- Index expected: windlass_jobs_ready, …_ready_others and …_waiting_task.
WITH RECURSIVE
alive (tasks, tenants) AS (
  SELECT tasks, tenants FROM windlass_workers
  WHERE id NOT IN (SELECT value FROM json_each(:dead))
),
served (task, tenant) AS (
  SELECT t.value, o.value
  FROM alive AS a
  CROSS JOIN json_each(a.tasks) AS t
  CROSS JOIN json_each(coalesce(a.tenants, '[null]')) AS o
),
found (task) AS (
  SELECT ''
  UNION ALL
  SELECT (
    SELECT min(n.task) FROM (
      SELECT min(j.task) AS task FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant = '' AND j.task > f.task
      UNION ALL
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.task > f.task
      UNION ALL
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > f.task
    ) AS n
  )
  FROM found AS f WHERE f.task IS NOT NULL
)
SELECT CAST(json_group_array(task) AS BLOB)
FROM (
  SELECT f.task FROM found AS f
  WHERE f.task <> ''
    AND NOT EXISTS (SELECT 1 FROM alive WHERE tasks IS NULL)
    AND f.task NOT IN (SELECT s.task FROM served AS s WHERE s.tenant IS NULL)
    AND EXISTS (
      SELECT 1 FROM (
        SELECT * FROM (
          SELECT j.tenant FROM windlass_jobs AS j
          WHERE j.state = 'ready' AND j.tenant = '' AND j.task = f.task
          LIMIT 1
        )
        UNION ALL
        SELECT * FROM (
          SELECT j.tenant FROM windlass_jobs AS j
          WHERE j.state = 'ready' AND j.tenant <> '' AND j.task = f.task
          LIMIT 1000
        )
        UNION ALL
        SELECT * FROM (
          SELECT j.tenant FROM windlass_jobs AS j
          WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task = f.task
          LIMIT 1000
        )
      ) AS o
      WHERE NOT EXISTS (
          SELECT 1 FROM windlass_paused AS p
          WHERE p.tenant = o.tenant AND p.kind = 'task' AND p.name = f.task
        )
        AND (f.task, o.tenant) NOT IN (
          SELECT s.task, s.tenant FROM served AS s WHERE s.tenant IS NOT NULL
        )
    )
  LIMIT :most
)
