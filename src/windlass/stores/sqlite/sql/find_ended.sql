-- A page of failed, or of cancelled, jobs, the newest first.
-- Index expected: windlass_jobs_ended; for one tenant windlass_jobs_ended_tenant.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row FROM windlass_jobs AS j
  WHERE j.finished_at IS NOT NULL AND j.state = :state AND j.id < :before AND {seen}
    AND (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:key IS NULL OR j.key = :key)
  ORDER BY j.id DESC
  LIMIT :limit
)
