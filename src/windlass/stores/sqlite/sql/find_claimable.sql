-- Of these branches, [owner, task] each, the places in the list of those that have a ready job. An
-- owner is '' for the default tenant, NULL for all others, or one of them; tasks that are paused for
-- the owner are left out. Where the task is NULL any task will do, but for Windlass's own, whose names
-- begin with :reserved: the walk goes from task to task until it meets one.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant, covering; the primary key of
-- windlass_paused.
WITH RECURSIVE
asked (place, owner, task) AS (
  SELECT key, value ->> 0, value ->> 1 FROM json_each(:branches)
),
walk (place, owner, task) AS (
  SELECT place, owner, '' FROM asked WHERE task IS NULL
  UNION ALL
  SELECT w.place, w.owner, CASE
    WHEN w.owner IS NULL THEN (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.task > w.task
    )
    WHEN w.owner = '' THEN (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant = '' AND j.task > w.task
    )
    ELSE (
      SELECT min(j.task) FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.tenant = w.owner AND j.task > w.task
    )
  END
  FROM walk AS w
  WHERE w.task = '' OR substr(w.task, 1, length(:reserved)) = :reserved OR EXISTS (
    SELECT 1 FROM windlass_paused AS p
    WHERE p.tenant = w.owner AND p.kind = 'task' AND p.name = w.task
  )
)
SELECT CAST(json_group_array(f.place) AS BLOB)
FROM (
  SELECT w.place, w.owner, w.task
  FROM walk AS w
  WHERE w.task <> '' AND substr(w.task, 1, length(:reserved)) <> :reserved
  UNION ALL
  SELECT a.place, a.owner, a.task
  FROM asked AS a
  WHERE a.task IS NOT NULL AND CASE
    WHEN a.owner IS NULL THEN EXISTS (
      SELECT 1 FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.task = a.task
    )
    WHEN a.owner = '' THEN EXISTS (
      SELECT 1 FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant = '' AND j.task = a.task
    )
    ELSE EXISTS (
      SELECT 1 FROM windlass_jobs AS j
      WHERE j.state = 'ready' AND j.tenant <> '' AND j.tenant = a.owner AND j.task = a.task
    )
  END
) AS f
WHERE NOT EXISTS (
  SELECT 1 FROM windlass_paused AS p
  WHERE p.tenant = f.owner AND p.kind = 'task' AND p.name = f.task
)
