-- The completed jobs of a chain that were kept, in order.
-- Index expected: windlass_history_chain.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {history_row} AS row FROM windlass_history AS h WHERE h.chain = :chain ORDER BY h.step
)
