-- The jobs that wait for a chain.
-- Index expected: the primary keys.
SELECT CAST(json_group_array({job_row}) AS BLOB)
FROM (
  SELECT DISTINCT job FROM windlass_blockers WHERE chain = :chain AND state = 'open'
) AS b
CROSS JOIN windlass_jobs AS j ON j.id = b.job AND j.state = 'blocked'
