-- breaking: yes
-- What operators call. Running jobs are left alone; what changed is returned. Rows are locked in
-- the order of their keys and then ids, so that two calls at once never deadlock.

CREATE FUNCTION {schema}._cancel_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j {schema}._jobs;
BEGIN
  _ids := {schema}._unbatch(_ids, true);
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'waiting', 'ready', 'running')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  LOOP
    IF j.state = 'running' THEN
      UPDATE {schema}._jobs AS k SET cancel_requested = true, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    ELSE
      IF j.state = 'ready' AND j.queue IS NOT NULL THEN
        INSERT INTO {schema}._bells (queue) VALUES (j.queue);
        PERFORM pg_notify({channel}, '');
      END IF;
      UPDATE {schema}._jobs AS k SET
        state = 'cancelled', superseded = false, finished_at = at, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    END IF;
    RETURN NEXT j;
  END LOOP;
END $$;

-- These jobs, which the caller has locked, leave the queues whose heads they are.
CREATE FUNCTION {schema}._leave_queues(_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}._bells (queue)
  SELECT k.queue FROM {schema}._jobs AS k
  WHERE k.id = ANY (_ids) AND k.state = 'ready' AND k.queue IS NOT NULL;
  IF FOUND THEN
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;

CREATE FUNCTION {schema}._complete_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  _ids := {schema}._unbatch(_ids, false);
  PERFORM {schema}._leave_queues(_ids);
  RETURN QUERY
  WITH gone AS (
    DELETE FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'waiting', 'ready', 'failed')
    RETURNING k.*
  ),
  filed AS (
    INSERT INTO {schema}._history
      (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts,
       deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error,
       progress, log, meta)
    SELECT g.id, g.run_at, g.created_at, at, at + make_interval(secs => {schema}._span(g.keep)),
      g.token, g.keep, g.priority, g.attempts, g.deliveries, g.revision, g.resets,
      g.max_attempts, g.task, g.payload, g.key, g.queue, g.flags, g.last_error, g.progress,
      g.log, g.meta
    FROM gone AS g WHERE {schema}._span(g.keep) > 0
  )
  SELECT  -- all columns, in their order
    g.id, g.run_at, g.created_at, at, g.token, g.worker, g.claimed_at, g.lease_until, g.lease, at,
    g.keep, 'completed'::{schema}._job_state, g.priority, g.attempts, g.deliveries, g.revision,
    g.resets, g.max_attempts, g.suspect, g.superseded, g.cancel_requested, g.task, g.payload,
    g.key, g.queue, g.flags, g.last_error, g.progress, g.log, g.meta
  FROM gone AS g;
END $$;

CREATE FUNCTION {schema}._fail_jobs(_ids bigint[], _reason text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  _ids := {schema}._unbatch(_ids, false);
  PERFORM {schema}._leave_queues(_ids);
  RETURN QUERY
  UPDATE {schema}._jobs AS k SET
    state = 'failed', attempts = coalesce(k.max_attempts, {max_attempts}),
    last_error = _reason, finished_at = at, updated_at = at
  WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'waiting', 'ready', 'failed')
  RETURNING k.*;
END $$;

-- NULL leaves a value as it is. A failed job stays failed unless `_attempts` is given.
CREATE FUNCTION {schema}._reschedule_jobs(
  _ids bigint[], _run_at timestamptz, _priority integer, _attempts integer,
  _max_attempts integer, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  _ids := {schema}._unbatch(_ids, false);
  PERFORM {schema}._leave_queues(_ids);
  RETURN QUERY
  UPDATE {schema}._jobs AS k SET
    run_at = coalesce(_run_at, k.run_at), priority = coalesce(_priority, k.priority),
    attempts = coalesce(_attempts, k.attempts),
    max_attempts = coalesce(_max_attempts, k.max_attempts),
    state = CASE
      WHEN k.state = 'failed' AND _attempts IS NULL OR coalesce(_attempts, k.attempts)
        >= coalesce(_max_attempts, k.max_attempts, {max_attempts}) THEN 'failed'
      ELSE {schema}._due_state(coalesce(_run_at, k.run_at), k.queue, at)
    END,
    finished_at = CASE
      WHEN k.state = 'failed' AND _attempts IS NULL THEN k.finished_at
      WHEN coalesce(_attempts, k.attempts)
        >= coalesce(_max_attempts, k.max_attempts, {max_attempts}) THEN at
    END,
    updated_at = at
  WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'waiting', 'ready', 'failed')
  RETURNING k.*;
  INSERT INTO {schema}._bells (queue)
  SELECT DISTINCT k.queue FROM {schema}._jobs AS k
  WHERE k.id = ANY (_ids) AND k.state = 'waiting';
  PERFORM pg_notify({channel}, '') WHERE EXISTS (
    SELECT FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('ready', 'waiting')
  );
  PERFORM pg_notify({channel}, 'due') WHERE EXISTS (
    SELECT FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state = 'scheduled' AND k.run_at <= at + {soon}
  );
END $$;

-- Failed, cancelled and scheduled jobs run again now, with all their attempts; a cancelled one
-- only if nobody has its key by now.
CREATE FUNCTION {schema}._retry_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j {schema}._jobs;
BEGIN
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'failed', 'cancelled')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  LOOP
    BEGIN
      UPDATE {schema}._jobs AS k SET
        attempts = 0, resets = 0, suspect = false, finished_at = NULL, run_at = at,
        updated_at = at, state = {schema}._due_state(at, k.queue, at)
      WHERE k.id = j.id RETURNING k.* INTO j;
    EXCEPTION WHEN unique_violation THEN
      CONTINUE;
    END;
    IF j.queue IS NOT NULL THEN
      INSERT INTO {schema}._bells (queue) VALUES (j.queue);
    END IF;
    PERFORM pg_notify({channel}, '');
    RETURN NEXT j;
  END LOOP;
END $$;

-- Delete the job with that key; one that runs loses its key and will not run again.
CREATE FUNCTION {schema}._remove_job(_key text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  SELECT k.* INTO j FROM {schema}._jobs AS k
  WHERE k.key = _key AND k.state <> 'cancelled' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF j.state = 'running' THEN
    UPDATE {schema}._jobs AS k SET
      key = NULL, superseded = true, updated_at = coalesce(_now, statement_timestamp())
    WHERE k.id = j.id RETURNING k.* INTO j;
  ELSE
    DELETE FROM {schema}._jobs AS k WHERE k.id = j.id;
    IF j.state = 'ready' AND j.queue IS NOT NULL THEN
      INSERT INTO {schema}._bells (queue) VALUES (j.queue);
      PERFORM pg_notify({channel}, '');
    END IF;
  END IF;
  RETURN NEXT j;
END $$;

-- Treat these workers as dead now.
CREATE FUNCTION {schema}._unlock(
  _workers text[], _max_resets integer, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = '10s'
AS $$
DECLARE
  numbers bigint[];
  doomed bigint[];
BEGIN
  SELECT array_agg(w.id) INTO numbers FROM (
    SELECT v.id FROM {schema}._workers AS v WHERE v.name = ANY (_workers)
    ORDER BY v.id FOR UPDATE
  ) AS w;
  -- What somebody's transaction holds is waited for.
  PERFORM {schema}._unbatch(ARRAY(
    SELECT k.id FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.worker = ANY (numbers)
    UNION ALL
    SELECT b.id FROM {schema}._in_batches AS b WHERE b.worker = ANY (numbers)
  ), true);
  PERFORM {schema}._spread(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = ANY (numbers)
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (numbers) ORDER BY k.id FOR UPDATE
  ) AS r;
  RETURN QUERY SELECT * FROM {schema}._take_back(
    doomed, _max_resets, coalesce(_now, statement_timestamp()));
  DELETE FROM {schema}._workers AS w WHERE w.id = ANY (numbers);
END $$;

-- Behind the latch, so that nobody makes a job of the queue ready in the meantime.
CREATE FUNCTION {schema}._pause(_kind text, _name text) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  -- Whoever waits for a row must not keep the latch from everybody.
  PERFORM FROM {schema}._jobs AS j
  WHERE _kind = 'queue' AND j.queue = _name AND j.queue IS NOT NULL AND j.state = 'ready'
  FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock({latch});
  INSERT INTO {schema}._paused (kind, name) VALUES (_kind, _name) ON CONFLICT DO NOTHING;
  IF _kind = 'queue' THEN
    UPDATE {schema}._jobs AS j SET state = 'waiting'
    WHERE j.queue = _name AND j.queue IS NOT NULL AND j.state = 'ready';
  END IF;
END $$;

CREATE FUNCTION {schema}._resume(_kind text, _name text) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock({latch});
  DELETE FROM {schema}._paused AS p WHERE p.kind = _kind AND p.name = _name;
  IF _kind = 'queue' THEN
    INSERT INTO {schema}._bells (queue) VALUES (_name);
  END IF;
  PERFORM pg_notify({channel}, '');
END $$;

CREATE FUNCTION {schema}._delete_failed(_limit integer) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._jobs AS o WHERE o.state = 'failed'
    ORDER BY o.finished_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END $$;
