-- Running jobs whose worker is overdue and whose own lease, if any, has ended.
-- Index expected: windlass_jobs_running.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT r.row
  FROM windlass_workers AS w
  CROSS JOIN windlass_jobs AS j ON j.worker = w.id AND j.state = 'running'
  CROSS JOIN windlass_job_rows AS r ON r.id = j.id
  WHERE w.expires_at <= :now AND coalesce(j.lease_until, 0) <= :now
  ORDER BY j.id
  LIMIT :limit
)
