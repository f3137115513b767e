-- How many jobs are blocked although every chain they named has ended, and the first of them: such jobs
-- would wait for ever. The end of a chain and what follows from it are one transaction, so there are
-- none. A chain that ended badly is waited for by jobs that asked to wait.
-- Index expected: windlass_jobs_blocked, windlass_blockers_job, the primary key of windlass_chains.
SELECT json_array(count(*), min(j.id))
FROM windlass_jobs AS j
WHERE j.state = 'blocked'
  AND NOT EXISTS (
    SELECT 1
    FROM windlass_blockers AS b
    CROSS JOIN windlass_chains AS c ON c.id = b.chain
    WHERE b.job = j.id AND b.state = 'open'
      AND (
        c.state = 'open'
        OR (j.on_blocker_failure = 'wait' AND c.state IN ('failed', 'cancelled'))
      )
  )
