-- A page of completed jobs that were kept, the newest first.
-- Index expected: the primary key; for one tenant windlass_history_tenant.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {history_row} AS row FROM windlass_history AS h
  WHERE h.id < :before AND {seen}
    AND (:task IS NULL OR h.task = :task)
    AND (:queue IS NULL OR h.queue = :queue)
    AND (:key IS NULL OR h.key = :key)
  ORDER BY h.id DESC
  LIMIT :limit
)
