-- Which of these jobs are in the history.
-- Index expected: the primary key.
SELECT CAST(json_group_array(h.id) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_history AS h ON h.id = i.value
