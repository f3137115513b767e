-- Write changed jobs back; each is a JSON array, a `records.Row`. A ready job of a serial queue waits
-- until the queue admits it, and whatever does not run any more is unlocked.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  {updates},
  state = iif({row.state} = 'ready' AND {row.queue} IS NOT NULL, 'waiting', {row.state}),
  worker = iif({row.state} = 'running', worker, NULL),
  token = iif({row.state} = 'running', token, NULL),
  lease_until = iif({row.state} = 'running', lease_until, NULL)
FROM json_each(:rows)
WHERE windlass_jobs.id = {row.id}
