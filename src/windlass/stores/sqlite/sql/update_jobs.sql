-- Write changed jobs back; each is a JSON array. Whatever does not run any more is unlocked.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  task = r.value ->> 1,
  payload = r.value ->> 2,
  state = r.value ->> 3,
  priority = r.value ->> 4,
  run_at = r.value ->> 5,
  attempts = r.value ->> 6,
  max_attempts = r.value ->> 7,
  key = r.value ->> 8,
  queue = r.value ->> 9,
  flags = r.value ->> 10,
  revision = r.value ->> 11,
  resets = r.value ->> 12,
  suspect = r.value ->> 13,
  superseded = r.value ->> 14,
  cancel_requested = r.value ->> 15,
  keep = r.value ->> 16,
  last_error = r.value ->> 17,
  progress = r.value ->> 18,
  log = r.value ->> 19,
  updated_at = r.value ->> 20,
  finished_at = r.value ->> 21,
  worker = iif(r.value ->> 3 = 'running', worker, NULL),
  token = iif(r.value ->> 3 = 'running', token, NULL),
  lease_until = iif(r.value ->> 3 = 'running', lease_until, NULL)
FROM json_each(:rows) AS r
WHERE windlass_jobs.id = r.value ->> 0
