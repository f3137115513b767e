-- Remove jobs cancelled long ago, the oldest first.
-- Index expected: windlass_jobs_cancelled, covering.
DELETE FROM windlass_jobs
WHERE id IN (
  SELECT id FROM windlass_jobs INDEXED BY windlass_jobs_cancelled
  WHERE state = 'cancelled' AND finished_at <= :stale
  ORDER BY finished_at, id
  LIMIT :limit
)
