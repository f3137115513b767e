-- A page of the failed jobs whose errors have a fingerprint ('' for those without one), the newest first.
-- Index expected: windlass_jobs_errors.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row FROM windlass_jobs AS j INDEXED BY windlass_jobs_errors
  WHERE j.state = 'failed' AND ifnull(j.fingerprint, '') = :fingerprint AND j.id < :before AND {seen}
    AND (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:key IS NULL OR j.key = :key)
  ORDER BY j.id DESC
  LIMIT :limit
)
