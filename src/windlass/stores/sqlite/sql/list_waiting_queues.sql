-- The queues of a tenant in which jobs of a task wait.
-- Index expected: windlass_jobs_waiting_task, covering.
SELECT CAST(json_group_array(queue) AS BLOB)
FROM (
  SELECT DISTINCT queue FROM windlass_jobs
  WHERE state = 'waiting' AND queue > '' AND task = :task AND tenant = :tenant
)
