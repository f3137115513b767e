-- The chains that a job named, in order: [id, row] of each; no row where it is not there any more.
-- Index expected: windlass_blockers_job, the primary key.
SELECT CAST(json_group_array(json_array(chain, json(row))) AS BLOB)
FROM (
  SELECT b.chain, iif(c.id IS NULL, NULL, {chain_row}) AS row
  FROM windlass_blockers AS b INDEXED BY windlass_blockers_job
  LEFT JOIN windlass_chains AS c ON c.id = b.chain
  WHERE b.job = :job
  ORDER BY b.place
)
