-- Copy completed jobs, given as [id, token, output, keep, expires_at], into the history.
-- Index expected: the primary key.
INSERT INTO windlass_history (
  id, task, payload, priority, run_at, attempts, deliveries, max_attempts, key, queue, flags,
  revision, resets, keep, last_error, output, progress, log, created_at, updated_at, finished_at,
  expires_at, meta
)
SELECT
  j.id, j.task, j.payload, j.priority, j.run_at, j.attempts, j.deliveries, j.max_attempts, j.key,
  j.queue, j.flags, j.revision, j.resets, p.value ->> 3, j.last_error, p.value ->> 2, j.progress,
  j.log, j.created_at, :now, :now, p.value ->> 4, j.meta
FROM json_each(:completed) AS p
CROSS JOIN windlass_jobs AS j ON j.id = p.value ->> 0
WHERE j.token = p.value ->> 1 AND j.state = 'running'
