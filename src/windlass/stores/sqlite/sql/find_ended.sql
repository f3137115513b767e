-- A page of failed, or of cancelled, jobs, by id.
-- Index expected: windlass_jobs_ended.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT row FROM windlass_job_rows
  WHERE finished_at IS NOT NULL AND state = :state AND id > :after
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:key IS NULL OR key = :key)
  ORDER BY id
  LIMIT :limit
)
