-- Keep finished jobs; each is a JSON array.
-- Index expected: none read.
INSERT INTO windlass_history (
  id, task, payload, priority, run_at, attempts, deliveries, max_attempts, key, queue, flags,
  revision, resets, keep, last_error, output, progress, log, created_at, updated_at, finished_at,
  expires_at
)
SELECT
  value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
  value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
  value ->> 14, value ->> 15, value ->> 16, value ->> 17, value ->> 18, value ->> 19,
  value ->> 20, value ->> 21
FROM json_each(:rows)
