-- A page of jobs that did not complete, by id.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT row FROM windlass_job_rows
  WHERE id > :after
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:key IS NULL OR key = :key)
  ORDER BY id
  LIMIT :limit
)
