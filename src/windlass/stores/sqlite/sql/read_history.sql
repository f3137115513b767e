-- Kept jobs by id.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_history_rows AS r ON r.id = i.value
