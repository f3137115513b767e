-- Jobs by id, whatever their state; finished ones that moved to the history are not among them.
-- Index expected: the primary key.
SELECT CAST(json_group_array({job_row}) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_jobs AS j ON j.id = i.value
