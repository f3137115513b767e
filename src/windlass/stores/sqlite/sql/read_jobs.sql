-- Jobs by id, whatever their state; finished ones that moved to the history are not among them.
-- Index expected: the primary key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_job_rows AS r ON r.id = i.value
