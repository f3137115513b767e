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
  _ids := ({schema}._unbatch(_ids, true)).locked;
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

-- A job as it is when it was completed.
CREATE FUNCTION {schema}._as_completed(j {schema}._jobs, at timestamptz) RETURNS {schema}._jobs
LANGUAGE sql IMMUTABLE
RETURN ROW(  -- all columns, in their order
  (j).id, (j).run_at, (j).created_at, at, (j).token, (j).worker, (j).claimed_at, (j).lease_until,
  (j).lease, at, (j).keep, 'completed'::{schema}._job_state, (j).priority, (j).attempts,
  (j).deliveries, (j).revision, (j).resets, (j).max_attempts, (j).suspect, (j).superseded,
  (j).cancel_requested, (j).task, (j).payload, (j).key, (j).queue, (j).flags, (j).last_error,
  (j).progress, (j).log, (j).meta)::{schema}._jobs;

-- What an operator does to jobs that do not run: `kind` is complete, fail (with a reason) or
-- reschedule, which leaves a value as it is where its own is NULL. A failed job stays failed unless
-- `attempts` is given.
CREATE TYPE {schema}._edit AS (
  kind text,
  reason text,
  run_at timestamptz,
  priority integer,
  attempts integer,
  max_attempts integer
);

-- Change those of these jobs that are open (see `_is_open`), and answer them as they are then.
CREATE FUNCTION {schema}._change_open(
  _ids bigint[], _edit {schema}._edit, _at timestamptz, _bases bigint[], _held int8multirange
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
  IF _edit.kind = 'complete' THEN
    IF _held IS NULL THEN
      INSERT INTO {schema}._history
        (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts,
         deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error,
         progress, log, meta)
      SELECT
        k.id, k.run_at, k.created_at, _at, _at + make_interval(secs => {schema}._span(k.keep)),
        k.token, k.keep, k.priority, k.attempts, k.deliveries, k.revision, k.resets,
        k.max_attempts, k.task, k.payload, k.key, k.queue, k.flags, k.last_error, k.progress,
        k.log, k.meta
      FROM {schema}._jobs AS k
      WHERE k.id = ANY (_ids) AND {schema}._is_open(k, NULL) AND {schema}._span(k.keep) > 0;
    END IF;
    RETURN QUERY
    DELETE FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _held)
    RETURNING ({schema}._public({schema}._as_completed(k, _at), NULL)).*;
  ELSIF _edit.kind = 'fail' THEN
    RETURN QUERY
    UPDATE {schema}._jobs AS k SET
      state = 'failed', attempts = coalesce(k.max_attempts, {max_attempts}),
      last_error = _edit.reason, finished_at = _at, updated_at = _at
    WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _held)
    RETURNING ({schema}._public(k, NULL)).*;
  ELSE
    RETURN QUERY
    UPDATE {schema}._jobs AS k SET
      run_at = coalesce(_edit.run_at, k.run_at), priority = coalesce(_edit.priority, k.priority),
      attempts = coalesce(_edit.attempts, k.attempts),
      max_attempts = coalesce(_edit.max_attempts, k.max_attempts),
      state = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL OR coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, {max_attempts}) THEN 'failed'
        ELSE {schema}._due_state(coalesce(_edit.run_at, k.run_at), k.queue, _at)
      END,
      finished_at = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL THEN k.finished_at
        WHEN coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, {max_attempts}) THEN _at
      END,
      updated_at = _at
    WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _held)
    RETURNING ({schema}._public(k, NULL)).*;
    PERFORM {schema}._announce(
      array_agg(k.queue) FILTER (WHERE k.state = 'waiting'),
      bool_or(k.state IN ('ready', 'waiting')),
      bool_or(k.state = 'scheduled' AND k.run_at <= _at + {soon})
    ) FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _held);
  END IF;
  IF _held IS NOT NULL THEN
    PERFORM {schema}._look_again(_ids, _bases);
  END IF;
END $$;

-- Change these jobs: in one pass where all of them are simple (`_seen` says how), else behind locks.
CREATE FUNCTION {schema}._change(_ids bigint[], _edit {schema}._edit, _at timestamptz)
RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  bases bigint[];
  held int8multirange;
  heads text[];
BEGIN
  SELECT s.bases, s.held INTO bases, held FROM {schema}._seen(_ids) AS s;
  IF held IS NOT NULL THEN
    BEGIN
      RETURN QUERY SELECT c.* FROM {schema}._change_open(_ids, _edit, _at, bases, held) AS c;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'WLBAT' THEN
      NULL;  -- undone: go on behind locks
    END;
  END IF;
  SELECT u.locked, u.heads INTO _ids, heads FROM {schema}._unbatch(_ids, false) AS u;
  PERFORM {schema}._announce(heads, heads IS NOT NULL, false);
  RETURN QUERY SELECT c.* FROM {schema}._change_open(_ids, _edit, _at, NULL, NULL) AS c;
END $$;

-- The same for Python, which wants whole rows.

CREATE FUNCTION {schema}._complete_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  rows {schema}._jobs[];
BEGIN
  _ids := ({schema}._unbatch(_ids, false)).locked;
  rows := ARRAY(SELECT k FROM {schema}._jobs AS k WHERE k.id = ANY (_ids));
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('complete', NULL, NULL, NULL, NULL, NULL)::{schema}._edit, at) AS c
  );
  RETURN QUERY
  SELECT ({schema}._as_completed(k, at)).* FROM unnest(rows) AS k WHERE k.id = ANY (_ids);
END $$;

CREATE FUNCTION {schema}._fail_jobs(_ids bigint[], _reason text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('fail', _reason, NULL, NULL, NULL, NULL)::{schema}._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM {schema}._jobs AS k WHERE k.id = ANY (_ids);
END $$;

CREATE FUNCTION {schema}._reschedule_jobs(
  _ids bigint[], _run_at timestamptz, _priority integer, _attempts integer,
  _max_attempts integer, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('reschedule', NULL, _run_at, _priority, _attempts, _max_attempts)::{schema}._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM {schema}._jobs AS k WHERE k.id = ANY (_ids);
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
