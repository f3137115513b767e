-- Due jobs, the earliest first: [id, tenant, queue] of each.
-- Index expected: windlass_jobs_scheduled.
SELECT CAST(json_group_array(json_array(id, tenant, queue)) AS BLOB)
FROM (
  SELECT id, tenant, queue FROM windlass_jobs
  WHERE state = 'scheduled' AND run_at <= :now
  ORDER BY run_at, id
  LIMIT :limit
)
