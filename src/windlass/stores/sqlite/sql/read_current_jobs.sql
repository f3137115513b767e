-- The jobs of these chains that are not completed: one of each at most.
-- Index expected: windlass_jobs_chain.
SELECT CAST(json_group_array({job_row}) AS BLOB)
FROM json_each(:chains) AS i
CROSS JOIN windlass_jobs AS j ON j.chain = i.value
