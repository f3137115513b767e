-- Forget a worker that stops, and hand back the jobs it still holds. Jobs that an open transaction
-- has locked are left to the reapers: the worker's lease ends now, so they need not wait for it.
CREATE OR REPLACE FUNCTION {schema}._retire(_worker text, _now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = '5s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  j {schema}._jobs;
  release {schema}._outcome;
BEGIN
  SELECT w.id INTO number FROM {schema}._workers AS w WHERE w.name = _worker FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM {schema}._dissolve_batches(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = number
  ));
  release.kind := 'release';
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = number ORDER BY k.id FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM {schema}._end(j, release, at);
  END LOOP;
  IF EXISTS (SELECT FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.worker = number)
    OR EXISTS (SELECT FROM {schema}._batches AS b WHERE b.worker = number)
  THEN
    UPDATE {schema}._workers AS w SET expires_at = at, lease = 0 WHERE w.id = number;
  ELSE
    DELETE FROM {schema}._workers AS w WHERE w.id = number;
  END IF;
  -- Its queues may have waiting jobs, and it will not look after them any more.
  PERFORM pg_notify({channel}, '');
END $$;
