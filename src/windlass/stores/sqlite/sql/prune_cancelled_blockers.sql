-- Forget what the jobs named that prune_cancelled is about to remove.
-- Index expected: windlass_jobs_cancelled, windlass_blockers_job.
DELETE FROM windlass_blockers
WHERE (chain, job, place) IN (
  SELECT b.chain, b.job, b.place
  FROM (
    SELECT id, blockers_total FROM windlass_jobs INDEXED BY windlass_jobs_cancelled
    WHERE state = 'cancelled' AND finished_at <= :stale
    ORDER BY finished_at, id
    LIMIT :limit
  ) AS j
  CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job ON b.job = j.id
  WHERE j.blockers_total IS NOT NULL
)
