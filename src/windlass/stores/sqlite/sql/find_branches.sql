-- Of these tasks and owners, those that have ready jobs, each with the place of its best:
-- [owner, task, priority, run_at, id], the best first. An owner is '' for the default tenant, NULL
-- for all others, or one of them.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant, covering.
SELECT CAST(json_group_array(json_array(owner, task, priority, run_at, id)) AS BLOB)
FROM (
  SELECT o.value AS owner, t.value AS task, j.priority, j.run_at, j.id
  FROM json_each(:owners) AS o
  CROSS JOIN json_each(:tasks) AS t
  CROSS JOIN windlass_jobs AS j ON j.id = CASE
    WHEN o.value IS NULL THEN (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant <> '' AND i.task = t.value
      ORDER BY i.priority, i.run_at, i.id LIMIT 1
    )
    WHEN o.value = '' THEN (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant = '' AND i.task = t.value
      ORDER BY i.priority, i.run_at, i.id LIMIT 1
    )
    ELSE (
      SELECT i.id FROM windlass_jobs AS i
      WHERE i.state = 'ready' AND i.tenant <> '' AND i.tenant = o.value AND i.task = t.value
      ORDER BY i.priority, i.run_at, i.id LIMIT 1
    )
  END
  ORDER BY j.priority, j.run_at, j.id
)
