-- Ids of failed jobs, the lowest first, and the queues they belong to.
-- Index expected: windlass_jobs_ended.
SELECT CAST(json_group_array(json_array(id, queue)) AS BLOB)
FROM (
  SELECT id, queue FROM windlass_jobs
  WHERE finished_at IS NOT NULL AND state = 'failed'
  ORDER BY id
  LIMIT :limit
)
