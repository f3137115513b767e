-- The jobs that wait for one of these chains, which have completed: [job, chains, blockers_open, run_at,
-- tenant, queue] of each, where `chains` counts those of them that it waits for.
-- Index expected: the primary keys.
SELECT CAST(json_group_array(
  json_array(j.id, w.chains, j.blockers_open, j.run_at, j.tenant, j.queue)
) AS BLOB)
FROM (
  SELECT b.job, count(DISTINCT b.chain) AS chains
  FROM json_each(:chains) AS i
  CROSS JOIN windlass_blockers AS b ON b.chain = i.value AND b.state = 'open'
  GROUP BY b.job
) AS w
CROSS JOIN windlass_jobs AS j ON j.id = w.job AND j.state = 'blocked'
