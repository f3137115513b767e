-- Tasks with claimable jobs that none of the workers runs who are not in :dead, nor is paused; none
-- while one of those workers has not said what it runs.
-- Index expected: windlass_jobs_ready, covering.
WITH RECURSIVE
alive (tasks) AS (
  SELECT tasks FROM windlass_workers WHERE id NOT IN (SELECT value FROM json_each(:dead))
),
found (task) AS (
  SELECT min(task) FROM windlass_jobs WHERE state = 'ready'
  UNION ALL
  SELECT (SELECT min(j.task) FROM windlass_jobs AS j WHERE j.state = 'ready' AND j.task > f.task)
  FROM found AS f WHERE f.task IS NOT NULL
)
SELECT CAST(json_group_array(task) AS BLOB)
FROM (
  SELECT task FROM found
  WHERE task IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM alive WHERE tasks IS NULL)
    AND task NOT IN (SELECT t.value FROM alive AS a, json_each(a.tasks) AS t)
    AND task NOT IN (SELECT name FROM windlass_paused WHERE kind = 'task')
  LIMIT :most
)
