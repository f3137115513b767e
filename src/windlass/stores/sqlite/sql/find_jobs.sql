-- A page of jobs that did not complete, the newest first.
-- Index expected: the primary key; for one tenant windlass_jobs_tenant.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row FROM windlass_jobs AS j
  WHERE j.id < :before AND {seen}
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:key IS NULL OR j.key = :key)
  ORDER BY j.id DESC
  LIMIT :limit
)
