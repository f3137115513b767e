-- Chains by id, each with its current job.
-- Index expected: the primary key, windlass_jobs_chain, windlass_history_chain.
SELECT CAST(json_group_array({chain_and_job}) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_chains AS c ON c.id = i.value
