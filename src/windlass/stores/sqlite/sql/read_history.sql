-- Kept jobs by id.
-- Index expected: the primary key.
SELECT CAST(json_group_array({history_row}) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_history AS h ON h.id = i.value
