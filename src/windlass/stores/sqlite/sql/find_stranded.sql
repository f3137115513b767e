-- Tasks with ready jobs, those behind the heads of their queues too, that none of the workers runs
-- who are not in :dead, nor is paused; none while one of those workers has not said what it runs.
-- Index expected: windlass_jobs_ready and windlass_jobs_waiting_task, covering.
WITH RECURSIVE
alive (tasks) AS (
  SELECT tasks FROM windlass_workers WHERE id NOT IN (SELECT value FROM json_each(:dead))
),
found (task) AS (
  SELECT ''
  UNION ALL
  SELECT (
    SELECT min(n.task) FROM (
      SELECT min(j.task) AS task FROM windlass_jobs AS j WHERE j.state = 'ready' AND j.task > f.task
      UNION ALL
      SELECT min(j.task) FROM windlass_jobs AS j WHERE j.state = 'waiting' AND j.task > f.task
    ) AS n
  )
  FROM found AS f WHERE f.task IS NOT NULL
)
SELECT CAST(json_group_array(task) AS BLOB)
FROM (
  SELECT task FROM found
  WHERE task <> ''
    AND NOT EXISTS (SELECT 1 FROM alive WHERE tasks IS NULL)
    AND task NOT IN (SELECT t.value FROM alive AS a, json_each(a.tasks) AS t)
    AND task NOT IN (SELECT name FROM windlass_paused WHERE kind = 'task')
  LIMIT :most
)
