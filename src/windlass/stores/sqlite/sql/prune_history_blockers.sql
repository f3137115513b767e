-- Forget what the jobs named that prune_history is about to remove.
-- Index expected: windlass_history_expires, windlass_blockers_job.
DELETE FROM windlass_blockers
WHERE (chain, job, place) IN (
  SELECT b.chain, b.job, b.place
  FROM (
    SELECT id, blockers_total FROM windlass_history
    WHERE expires_at <= :now
    ORDER BY expires_at, id
    LIMIT :limit
  ) AS h
  CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job ON b.job = h.id
  WHERE h.blockers_total IS NOT NULL
)
