-- A page of completed jobs that were kept, by id.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {history_row} AS row FROM windlass_history AS h
  WHERE h.id > :after
    AND (:task IS NULL OR h.task = :task)
    AND (:queue IS NULL OR h.queue = :queue)
    AND (:key IS NULL OR h.key = :key)
  ORDER BY h.id
  LIMIT :limit
)
