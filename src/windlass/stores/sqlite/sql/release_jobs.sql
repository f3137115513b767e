-- Jobs that wait for no chain any more are due, though not before jobs that are ready.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  blockers_open = 0,
  state = CASE WHEN run_at > :now THEN 'scheduled' WHEN queue IS NULL THEN 'ready' ELSE 'waiting' END,
  run_at = max(run_at, :now),
  updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids))
