-- Whether any finished job or chain was kept long enough, see prune_chains; or any request.
-- Index expected: windlass_history_expires, windlass_jobs_cancelled, windlass_chains_ended,
-- windlass_requests_asked.
SELECT EXISTS (SELECT 1 FROM windlass_history WHERE expires_at <= :now)
  OR EXISTS (
    SELECT 1 FROM windlass_jobs INDEXED BY windlass_jobs_cancelled
    WHERE state = 'cancelled' AND finished_at <= :stale
  )
  OR EXISTS ({old_chains})
  OR EXISTS (SELECT 1 FROM windlass_requests WHERE asked_at <= :asked)
