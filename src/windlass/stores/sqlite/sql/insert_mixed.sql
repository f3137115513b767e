-- Add jobs of any kind, in the order given; each is a JSON array. None is due after :last.
-- Index expected: none read; a key must be free.
INSERT INTO windlass_jobs (
  task, payload, queue, run_at, max_attempts, key, priority, flags, keep, revision,
  state, created_at, updated_at
)
SELECT
  value ->> 0, value ->> 1, value ->> 2, min(:last, coalesce(value ->> 3, :now + (value ->> 4))),
  value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10,
  CASE
    WHEN coalesce(value ->> 3, :now + (value ->> 4)) > :now THEN 'scheduled'
    WHEN value ->> 2 IS NOT NULL THEN 'waiting'
    ELSE 'ready'
  END,
  :now, :now
FROM json_each(:rows)
