-- A page of all chains, the newest first, each with its current job.
-- Index expected: the primary keys, windlass_jobs_chain, windlass_history_chain.
SELECT CAST(json_group_array({chain_and_job}) AS BLOB)
FROM (
  SELECT id FROM windlass_chains
  WHERE id < :before AND (:tenant IS NULL OR tenant = :tenant)
  ORDER BY id DESC
  LIMIT :limit
) AS p
CROSS JOIN windlass_chains AS c ON c.id = p.id
