-- Running jobs of these dead workers whose own lease, if any, has ended.
-- Index expected: windlass_jobs_running.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row
  FROM json_each(:workers) AS d
  CROSS JOIN windlass_jobs AS j ON j.worker = d.value AND j.state = 'running'
  WHERE coalesce(j.lease_until, 0) <= :ticks
  ORDER BY j.id
  LIMIT :limit
)
