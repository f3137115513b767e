-- What these workers hold, by id.
-- Index expected: windlass_jobs_running.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row
  FROM windlass_workers AS d
  CROSS JOIN windlass_jobs AS j ON j.worker = d.id AND j.state = 'running'
  WHERE d.name IN (SELECT value FROM json_each(:workers))
  ORDER BY j.id
)
