-- Ids of due jobs, the earliest first, and the queues they belong to.
-- Index expected: windlass_jobs_scheduled.
SELECT CAST(json_group_array(json_array(id, queue)) AS BLOB)
FROM (
  SELECT id, queue FROM windlass_jobs
  WHERE state = 'scheduled' AND run_at <= :now
  ORDER BY run_at, id
  LIMIT :limit
)
