-- The chains that these jobs named, as [job, place, chain, row]; no row where a chain is not there any
-- more, and nothing of a job whose chains have more than :most characters of output: these are counted
-- one by one, so that no more is read.
-- Index expected: windlass_blockers_job, the primary key.
WITH RECURSIVE counted (job, place, total) AS (
  SELECT value, -1, 0 FROM json_each(:jobs)
  UNION ALL
  SELECT n.job, b.place, n.total + coalesce(length(c.output), 0)
  FROM counted AS n
  CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job
    ON b.job = n.job AND b.place = n.place + 1
  LEFT JOIN windlass_chains AS c ON c.id = b.chain
  WHERE n.total <= :most
)
SELECT CAST(json_group_array(
  json_array(b.job, b.place, b.chain, iif(c.id IS NULL, NULL, {chain_row}))
) AS BLOB)
FROM (SELECT job FROM counted GROUP BY job HAVING max(total) <= :most) AS s
CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job ON b.job = s.job
LEFT JOIN windlass_chains AS c ON c.id = b.chain
