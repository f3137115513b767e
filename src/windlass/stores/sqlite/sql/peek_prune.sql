-- Whether any finished job was kept long enough.
-- Index expected: windlass_history_expires, windlass_jobs_cancelled.
SELECT EXISTS (SELECT 1 FROM windlass_history WHERE expires_at <= :now)
  OR EXISTS (
    SELECT 1 FROM windlass_jobs INDEXED BY windlass_jobs_cancelled
    WHERE state = 'cancelled' AND finished_at <= :stale
  )
