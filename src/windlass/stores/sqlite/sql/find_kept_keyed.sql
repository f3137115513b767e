-- A page of completed jobs with a key that were kept, the newest first.
-- Index expected: windlass_history_key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {history_row} AS row FROM windlass_history AS h
  WHERE h.key = :key AND h.id < :before
    AND (:tenant IS NULL OR h.tenant = :tenant)
    AND (:task IS NULL OR h.task = :task)
    AND (:queue IS NULL OR h.queue = :queue)
  ORDER BY h.id DESC
  LIMIT :limit
)
