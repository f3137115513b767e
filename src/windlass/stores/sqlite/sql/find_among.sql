-- A page of these jobs that did not complete, the newest first.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row FROM windlass_jobs AS j
  WHERE j.id IN (SELECT value FROM json_each(:ids)) AND j.id < :before
    AND (:tenant IS NULL OR j.tenant = :tenant)
    AND j.state IN (SELECT value FROM json_each(:states))
    AND (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:key IS NULL OR j.key = :key)
  ORDER BY j.id DESC
  LIMIT :limit
)
