-- How many blocked jobs wait for chains that failed or were cancelled, and the first :most of these
-- chains.
-- Index expected: windlass_jobs_blocked, windlass_blockers_job, the primary key of windlass_chains.
WITH waiting (job, chain) AS MATERIALIZED (
  SELECT j.id, c.id
  FROM windlass_jobs AS j
  CROSS JOIN windlass_blockers AS b ON b.job = j.id AND b.state = 'open'
  CROSS JOIN windlass_chains AS c ON c.id = b.chain AND c.state IN ('failed', 'cancelled')
  WHERE j.state = 'blocked' AND j.on_blocker_failure = 'wait'
)
SELECT json_array(
  (SELECT count(DISTINCT job) FROM waiting),
  (
    SELECT json_group_array(chain)
    FROM (SELECT DISTINCT chain FROM waiting ORDER BY chain LIMIT :most)
  )
)
