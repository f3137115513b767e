-- What these workers hold, by id.
-- Index expected: windlass_jobs_running.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT r.row
  FROM windlass_workers AS w
  CROSS JOIN windlass_job_rows AS r ON r.worker = w.id AND r.state = 'running'
  WHERE w.name IN (SELECT value FROM json_each(:workers))
  ORDER BY r.id
)
