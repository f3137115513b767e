-- Running jobs of these dead workers whose own lease, if any, has ended.
-- Index expected: windlass_jobs_running.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT r.row
  FROM json_each(:workers) AS w
  CROSS JOIN windlass_jobs AS j ON j.worker = w.value AND j.state = 'running'
  CROSS JOIN windlass_job_rows AS r ON r.id = j.id
  WHERE coalesce(j.lease_until, 0) <= :ticks
  ORDER BY j.id
  LIMIT :limit
)
