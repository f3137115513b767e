-- A page of completed jobs that were kept, by id.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT row FROM windlass_history_rows
  WHERE id > :after
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:key IS NULL OR key = :key)
  ORDER BY id
  LIMIT :limit
)
