-- Remove failed jobs, by id.
-- Index expected: windlass_jobs_ended.
DELETE FROM windlass_jobs
WHERE id IN (
  SELECT id FROM windlass_jobs
  WHERE finished_at IS NOT NULL AND state = 'failed'
  ORDER BY id
  LIMIT :limit
)
