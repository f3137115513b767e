-- Whether a claim has anything to write: a job of these tasks is claimable, or the worker was
-- not heard of for a while (its lease ends before :fresh, or it is unknown).
-- Index expected: windlass_jobs_ready, covering; the workers' unique name.
SELECT
  NOT EXISTS (SELECT 1 FROM windlass_workers WHERE name = :worker AND expires_at > :fresh)
  OR EXISTS (
    SELECT 1 FROM json_each(:tasks) AS t
    CROSS JOIN windlass_jobs AS j ON j.state = 'ready' AND j.task = t.value
  )
