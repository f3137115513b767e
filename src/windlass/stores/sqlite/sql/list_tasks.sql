-- The tasks that have ready jobs of these owners (see find_branches), and with :waiting also those that
-- have jobs behind the heads of queues, of any tenant; without those of Windlass's own, whose names
-- begin with :reserved.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant, …_waiting_task, covering.
WITH RECURSIVE
ready (owner, task) AS (
  SELECT value, '' FROM json_each(:owners)
  UNION ALL
  SELECT r.owner, CASE
    WHEN r.owner IS NULL THEN (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.task > r.task
    )
    WHEN r.owner = '' THEN (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant = '' AND j.task > r.task
    )
    ELSE (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.tenant = r.owner AND j.task > r.task
    )
  END
  FROM ready AS r WHERE r.task IS NOT NULL
),
waiting (task) AS (
  SELECT '' WHERE :waiting
  UNION ALL
  SELECT (
    SELECT min(j.task) FROM windlass_jobs AS j
    WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > w.task
  )
  FROM waiting AS w WHERE w.task IS NOT NULL
)
SELECT CAST(json_group_array(task) AS BLOB)
FROM (
  SELECT task FROM ready WHERE task <> ''
  UNION
  SELECT task FROM waiting WHERE task <> ''
)
WHERE substr(task, 1, length(:reserved)) <> :reserved
