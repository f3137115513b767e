-- breaking: yes
-- Adding jobs. Nothing here locks or inserts a row that two callers with different keys share, so
-- that no open transaction makes another wait. `_now` stands in for the server's clock in tests.
--
-- Workers listen on one channel: '' says that a claim may find something, 'due' that a job was
-- scheduled for a time that is not far off. The server sends each once for a transaction. Jobs that
-- are due later than `{soon}` from now notify nobody, since every worker polls before they are due.

-- Whether it may start, must wait its turn in its queue, or is not due yet.
CREATE FUNCTION {schema}._due_state(run_at timestamptz, queue text, at timestamptz)
RETURNS {schema}._job_state LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN run_at > at THEN 'scheduled'::{schema}._job_state
  WHEN queue IS NULL THEN 'ready'::{schema}._job_state
  ELSE 'waiting'::{schema}._job_state
END;

-- A payload that a program which reads it can represent, or an error: PostgreSQL's json also takes
-- NUL, half characters, numbers of any size and any depth.
CREATE FUNCTION {schema}._walked(payload json) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  tree jsonb;
BEGIN
  BEGIN
    tree := payload::jsonb;
  EXCEPTION
    WHEN statement_too_complex THEN
      RAISE EXCEPTION 'Payload is nested deeper than 64 levels' USING ERRCODE = 'WLPAY';
    WHEN data_exception THEN
      RAISE EXCEPTION 'Payload has a NUL, half a character or a number that no program can read: %',
        SQLERRM USING ERRCODE = 'WLPAY';
  END;
  IF jsonb_path_exists(
    tree, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")')
  THEN
    RAISE EXCEPTION 'Payload is nested deeper than 64 levels' USING ERRCODE = 'WLPAY';
  END IF;
  IF jsonb_path_exists(tree, 'strict $.** ? (@.type() == "number" &&'
    ' (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
  THEN
    RAISE EXCEPTION 'Payload has a number beyond double precision'
      USING ERRCODE = 'WLPAY', HINT = 'Send it as text.';
  END IF;
  RETURN payload;
END $$;

-- The same, with a walk over the value only where the text gives a reason: an escape, a number with
-- an exponent or many digits, and as many brackets as it takes to be deep. To look for many digits
-- costs more than all the rest, so it is not done where they have no room.
CREATE FUNCTION {schema}._sound(payload json) RETURNS json LANGUAGE sql IMMUTABLE
RETURN CASE
  WHEN CASE
      WHEN octet_length(payload::text) < 25 THEN payload::text ~ '\\u|[0-9][eE][+]?[0-9]{2}'
      ELSE payload::text ~ '\\u|[0-9][eE][+]?[0-9]{2}|[0-9]{25}'
    END
    OR octet_length(payload::text) > 128
      AND 2 * octet_length(payload::text) - octet_length(replace(payload::text, '[', ''))
        - octet_length(replace(payload::text, '{', '')) > 64
    THEN {schema}._walked(payload)
  ELSE payload
END;

-- Refuse a request that no job may come of, with one clear error.
CREATE FUNCTION {schema}._refuse(
  task text, queue text, key text, max_attempts integer, flags text[], keep float8
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF task IS NULL OR length(task) NOT BETWEEN 1 AND 128 THEN
    RAISE EXCEPTION 'Task identifier must have 1 to 128 characters, not %',
      coalesce(length(task), 0) USING ERRCODE = 'GWBID';
  ELSIF length(queue) NOT BETWEEN 1 AND 128 THEN
    RAISE EXCEPTION 'Queue name must have 1 to 128 characters, not %', length(queue)
      USING ERRCODE = 'GWBQN';
  ELSIF length(key) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION 'Job key must have 1 to 512 characters, not %', length(key)
      USING ERRCODE = 'GWBJK';
  ELSIF max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', max_attempts
      USING ERRCODE = 'GWBMA';
  ELSIF keep IS DISTINCT FROM {schema}._span(keep) THEN
    RAISE EXCEPTION 'A job cannot be kept for % seconds', keep USING ERRCODE = '22023';
  END IF;
  RAISE EXCEPTION 'Flags must be a list of at most 64 texts, none empty, 8192 characters in all'
    USING ERRCODE = '22023';
END $$;

-- The task of a request that a job may come of.
CREATE FUNCTION {schema}._accepted(
  task text, queue text, key text, max_attempts integer, flags text[], keep float8
) RETURNS text LANGUAGE sql STABLE
RETURN CASE
  WHEN task IS NOT NULL AND (
    length(task) BETWEEN 1 AND 128 AND length(queue) BETWEEN 1 AND 128
    AND length(key) BETWEEN 1 AND 512 AND max_attempts >= 1 AND keep BETWEEN 0 AND {longest}
    AND array_ndims(flags) = 1 AND cardinality(flags) <= 64
    AND (flags IS NULL OR array_position(flags, NULL) IS NULL
      AND array_position(flags, '') IS NULL AND length(array_to_string(flags, '')) <= 8192)
  ) IS NOT FALSE THEN task
  ELSE {schema}._refuse(task, queue, key, max_attempts, flags, keep)
END;

-- What a key's payload becomes: two arrays are joined, anything else gives way to the new one.
CREATE FUNCTION {schema}._joined(old json, new json) RETURNS json LANGUAGE sql IMMUTABLE
RETURN CASE
  WHEN json_typeof(old) <> 'array' OR json_typeof(new) <> 'array' THEN new
  WHEN json_array_length(old) = 0 THEN new
  WHEN json_array_length(new) = 0 THEN old
  ELSE (left(rtrim(old::text, E' \t\n\r'), -1) || ','
    || substr(ltrim(new::text, E' \t\n\r'), 2))::json
END;

-- What a job is to be, from Python or from SQL, with the mode of its key.
CREATE TYPE {schema}._request AS (
  task text,
  payload json,
  queue text,
  due timestamptz,
  max_attempts integer,
  key text,
  mode text,
  priority integer,
  flags text[],
  keep float8
);

-- Add one job, or change the one that has its key; its id. A request is never lost: when the key
-- appears or goes in the meantime it looks again.
CREATE FUNCTION {schema}._add_job(
  _task text, _payload json, _queue text, _run_at timestamptz, _max_attempts integer, _key text,
  _mode text, _priority integer, _flags text[], _keep float8, _at timestamptz,
  _id bigint DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
  old {schema}._jobs;
  due timestamptz := _run_at;
  new_id bigint;
  new_state {schema}._job_state;
BEGIN
  IF _mode NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'Job key mode must be replace, preserve_run_at or unsafe_dedupe, not %', _mode
      USING ERRCODE = 'GWBKM';
  END IF;
  _task := {schema}._accepted(_task, _queue, _key, _max_attempts, _flags, _keep);
  _payload := {schema}._sound(_payload);
  LOOP
    IF _key IS NOT NULL THEN
      SELECT j.* INTO old FROM {schema}._jobs AS j
      WHERE j.key = _key AND j.state <> 'cancelled' FOR NO KEY UPDATE;
      IF FOUND AND _mode = 'unsafe_dedupe' THEN
        UPDATE {schema}._jobs AS j SET revision = j.revision + 1, updated_at = _at
        WHERE j.id = old.id;
        RETURN old.id;
      ELSIF FOUND AND old.state = 'running' THEN
        -- It may complete, but not run again; the new request gets a row of its own.
        UPDATE {schema}._jobs AS j SET key = NULL, superseded = true, updated_at = _at
        WHERE j.id = old.id;
      ELSIF FOUND THEN
        IF _mode = 'preserve_run_at' AND old.state <> 'failed' AND old.attempts = 0 THEN
          due := old.run_at;
        END IF;
        new_id := old.id;
        new_state := {schema}._due_state(due, _queue, _at);
        UPDATE {schema}._jobs AS j SET
          task = _task, payload = {schema}._joined(j.payload, _payload), queue = _queue,
          run_at = due,
          max_attempts = _max_attempts, priority = _priority, flags = _flags, keep = _keep,
          attempts = 0, resets = 0, suspect = false, last_error = NULL, progress = NULL,
          log = NULL, finished_at = NULL, revision = j.revision + 1, updated_at = _at,
          state = new_state
        WHERE j.id = new_id;
        IF old.state = 'ready' AND old.queue IS NOT NULL THEN
          INSERT INTO {schema}._bells (queue) VALUES (old.queue);
        END IF;
        EXIT;
      END IF;
    END IF;
    new_state := {schema}._due_state(due, _queue, _at);
    INSERT INTO {schema}._jobs AS j
      (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       key, queue, flags)
    VALUES
      (coalesce(_id, nextval({sequence})), due, _at, _at, _keep, new_state, _priority,
       _max_attempts, _task, _payload, _key, _queue, _flags)
    ON CONFLICT (key) WHERE key IS NOT NULL AND state <> 'cancelled' DO NOTHING
    RETURNING j.id INTO new_id;
    EXIT WHEN FOUND;
  END LOOP;
  IF new_state = 'waiting' THEN
    INSERT INTO {schema}._bells (queue) VALUES (_queue);
  END IF;
  IF new_state <> 'scheduled' THEN
    PERFORM pg_notify({channel}, '');
  ELSIF due <= _at + {soon} THEN
    PERFORM pg_notify({channel}, 'due');
  END IF;
  RETURN new_id;
END $$;

-- Tell workers of jobs that were written: bells for the queues in which one waits, and a hint where
-- one may start or is due soon. Always true.
CREATE FUNCTION {schema}._announce(_queues text[], _is_due boolean, _is_soon boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF _queues <> '{}' THEN
    INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(_queues) AS q;
  END IF;
  IF _is_due THEN
    PERFORM pg_notify({channel}, '');
  END IF;
  IF _is_soon THEN
    PERFORM pg_notify({channel}, 'due');
  END IF;
  RETURN true;
END $$;

-- Write many jobs in one statement, in the order of their keys, as everybody locks rows: two calls at
-- once never deadlock. `_numbers` are ids for those that are new. Their ids, in the order given.
--
-- `_write_any` adds and changes; it locks, and answers NULL for, those that run, that are the head of
-- a queue, or whose key comes for the second time. `_write_new` only adds, and fails with
-- unique_violation where a key is there: a third less work, since ON CONFLICT writes each row before
-- it knows. Without nested loops, so that no plan made for few jobs compares many with each other.
DO $build$
DECLARE
  variant record;
BEGIN
  FOR variant IN
    VALUES
      ('_write_new', 'true', '', '_numbers'),
      ('_write_any',
       'r.key IS NULL OR lag(r.key) OVER (ORDER BY r.key NULLS FIRST, r.place) IS DISTINCT FROM r.key',
       $conflict$
    ON CONFLICT (key) WHERE key IS NOT NULL AND state <> 'cancelled' DO UPDATE SET
      task = excluded.task, payload = {schema}._joined(j.payload, excluded.payload),
      queue = excluded.queue, max_attempts = excluded.max_attempts,
      priority = excluded.priority, flags = excluded.flags, keep = excluded.keep,
      attempts = 0, resets = 0, suspect = false, last_error = NULL, progress = NULL,
      log = NULL, finished_at = NULL, revision = j.revision + 1, updated_at = _at,
      run_at = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0 THEN j.run_at
        ELSE excluded.run_at
      END,
      state = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0
          THEN {schema}._due_state(j.run_at, excluded.queue, _at)
        ELSE excluded.state
      END
    WHERE j.state <> 'running' AND (j.state <> 'ready' OR j.queue IS NULL)$conflict$,
       $ids$(
      SELECT array_agg(CASE WHEN g.key IS NULL THEN g.number ELSE w.id END ORDER BY g.place)
      FROM given AS g LEFT JOIN written AS w ON w.key = g.key AND g.is_first)$ids$)
  LOOP
    EXECUTE format($function$
CREATE FUNCTION {schema}.%s(
  _requests {schema}._request[], _numbers bigint[], _mode text, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_nestloop = off
AS $write$
DECLARE
  ids bigint[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.place, _numbers[r.place] AS number, %s AS is_first, r.due AS run_at, r.keep,
      {schema}._due_state(r.due, r.queue, _at) AS state, r.priority, r.max_attempts,
      {schema}._accepted(r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep) AS task,
      {schema}._sound(r.payload) AS payload, r.key, r.queue, r.flags
    FROM unnest(_requests) WITH ORDINALITY AS r
      (task, payload, queue, due, max_attempts, key, mode, priority, flags, keep, place)
  ),
  written AS (
    INSERT INTO {schema}._jobs AS j
      (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       key, queue, flags)
    SELECT
      g.number, g.run_at, _at, _at, g.keep, g.state, g.priority, g.max_attempts, g.task, g.payload,
      g.key, g.queue, g.flags
    FROM given AS g WHERE g.is_first
    ORDER BY g.key NULLS FIRST, g.place
    %s
    RETURNING j.id, j.key, j.queue, j.state, j.run_at
  )
  SELECT
    %s, ARRAY(SELECT DISTINCT w.queue FROM written AS w WHERE w.state = 'waiting'),
    n.is_due, n.is_soon
  INTO ids, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + {soon}) AS is_soon
    FROM written AS w
  ) AS n;
  PERFORM {schema}._announce(queues, is_due, is_soon);
  RETURN ids;
END $write$
    $function$, variant.column1, variant.column2, variant.column3, variant.column4);
  END LOOP;
END $build$;

-- Add many jobs, some of them with keys, or change those that have these keys. Their ids, in the
-- order given. `_mode` is the mode of all of them, and NULL where they differ.
CREATE FUNCTION {schema}._add_keyed(
  _requests {schema}._request[], _mode text, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  ids bigint[];
  request record;
  numbers bigint[];
BEGIN
  numbers := ARRAY(
    SELECT nextval({sequence}) FROM generate_series(1, cardinality(_requests))
  );
  IF _mode IN ('replace', 'preserve_run_at') AND cardinality(_requests) > 1 THEN
    IF NOT EXISTS (
      SELECT FROM unnest(_requests) AS r WHERE (
        SELECT true FROM {schema}._jobs AS j WHERE j.key = r.key AND j.state <> 'cancelled'
      )
    ) THEN
      BEGIN
        RETURN {schema}._write_new(_requests, numbers, _mode, _at);
      EXCEPTION WHEN unique_violation THEN
        NULL;  -- undone: a key has come meanwhile, or comes twice
      END;
    END IF;
    ids := {schema}._write_any(_requests, numbers, _mode, _at);
    IF array_position(ids, NULL) IS NULL THEN
      RETURN ids;
    END IF;
  END IF;
  FOR request IN
    SELECT r.* FROM unnest(_requests) WITH ORDINALITY AS r
      (task, payload, queue, due, max_attempts, key, mode, priority, flags, keep, place)
    WHERE ids[r.place] IS NULL
    ORDER BY r.key NULLS FIRST, r.place
  LOOP
    ids[request.place] := {schema}._add_job(
      request.task, request.payload, request.queue, request.due, request.max_attempts,
      request.key, request.mode, request.priority, request.flags, request.keep, _at,
      numbers[request.place]
    );
  END LOOP;
  RETURN ids;
END $$;

-- Many jobs in one call: a JSON array of objects with the names of `windlass.store.records.NewJob`,
-- instants and delays in microseconds. Their ids, in the order given.
CREATE FUNCTION {schema}._add_jobs(_jobs json, _is_keyed boolean, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  is_due boolean;
  is_soon boolean;
  queues text[];
  requests {schema}._request[];
  mode text;
BEGIN
  IF _is_keyed THEN
    SELECT
      array_agg(ROW(
        x.task, coalesce(x.payload, 'null'), x.queue,
        {schema}._finite(coalesce(
          timestamptz 'epoch' + x.run_at * interval '1 microsecond',
          _at + coalesce(x.delay, 0) * interval '1 microsecond'
        )),
        x.max_attempts, x.key, m.mode, coalesce(x.priority, 0), x.flags, x.keep
      )::{schema}._request ORDER BY x.place),
      CASE WHEN min(m.mode) = max(m.mode) THEN min(m.mode) END
    INTO requests, mode
    FROM ROWS FROM (json_to_recordset(_jobs) AS (
      task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
      key text, key_mode text, priority integer, flags text[], keep float8
    )) WITH ORDINALITY AS x
      (task, payload, queue, run_at, delay, max_attempts, key, key_mode, priority, flags, keep,
       place)
    CROSS JOIN LATERAL (SELECT coalesce(x.key_mode, 'replace') AS mode) AS m;
    RETURN {schema}._add_keyed(requests, mode, _at);
  END IF;
  WITH added AS (
    INSERT INTO {schema}._jobs AS j
      (run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       queue, flags)
    SELECT
      d.due, _at, _at, x.keep, {schema}._due_state(d.due, x.queue, _at),
      coalesce(x.priority, 0), x.max_attempts,
      {schema}._accepted(x.task, x.queue, NULL, x.max_attempts, x.flags, x.keep),
      {schema}._sound(coalesce(x.payload, 'null')), x.queue, x.flags
    FROM ROWS FROM (json_to_recordset(_jobs) AS (
      task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
      priority integer, flags text[], keep float8
    )) WITH ORDINALITY AS x
      (task, payload, queue, run_at, delay, max_attempts, priority, flags, keep, place)
    CROSS JOIN LATERAL (SELECT {schema}._finite(coalesce(
      timestamptz 'epoch' + x.run_at * interval '1 microsecond',
      _at + coalesce(x.delay, 0) * interval '1 microsecond'
    )) AS due) AS d
    ORDER BY x.place
    RETURNING j.id, j.queue, j.state, j.run_at
  )
  SELECT
    array_agg(a.id ORDER BY a.id),
    ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting'),
    bool_or(a.state <> 'scheduled'),
    bool_or(a.state = 'scheduled' AND a.run_at <= _at + {soon})
  INTO ids, queues, is_due, is_soon FROM added AS a;
  PERFORM {schema}._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;

-- Many jobs that differ in nothing but their payloads: one JSON object with the names that
-- `_add_jobs` knows, and `payloads` in place of `payload`. Their ids, in the order given.
CREATE FUNCTION {schema}._add_alike(_jobs json, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  spec record;
  due timestamptz;
  new_state {schema}._job_state;
BEGIN
  SELECT x.* INTO spec FROM json_to_record(_jobs) AS x (
    task text, payloads json, queue text, run_at bigint, delay bigint, max_attempts integer,
    priority integer, flags text[], keep float8
  );
  spec.task := {schema}._accepted(
    spec.task, spec.queue, NULL, spec.max_attempts, spec.flags, spec.keep);
  due := {schema}._finite(coalesce(
    timestamptz 'epoch' + spec.run_at * interval '1 microsecond',
    _at + coalesce(spec.delay, 0) * interval '1 microsecond'
  ));
  new_state := {schema}._due_state(due, spec.queue, _at);
  WITH added AS (
    INSERT INTO {schema}._jobs AS j
      (run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       queue, flags)
    SELECT
      due, _at, _at, spec.keep, new_state, coalesce(spec.priority, 0), spec.max_attempts,
      spec.task, {schema}._sound(p.value), spec.queue, spec.flags
    FROM json_array_elements(spec.payloads) AS p
    RETURNING j.id
  )
  SELECT array_agg(a.id) INTO ids FROM added AS a;
  IF new_state = 'waiting' THEN
    INSERT INTO {schema}._bells (queue) VALUES (spec.queue);
  END IF;
  IF new_state <> 'scheduled' THEN
    PERFORM pg_notify({channel}, '');
  ELSIF due <= _at + {soon} THEN
    PERFORM pg_notify({channel}, 'due');
  END IF;
  RETURN ids;
END $$;

-- Both for Python, told apart by their first character: the instant and the ids where all are
-- new, and whole rows where some have keys and may have been there before.
CREATE FUNCTION {schema}._enqueue(
  _jobs text, _is_keyed boolean, _now timestamptz DEFAULT NULL,
  OUT at_micros bigint, OUT ids bigint[], OUT jobs text
) LANGUAGE plpgsql
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  is_ours boolean := _is_keyed AND current_setting('lock_timeout') = '0';
BEGIN
  IF at <> {schema}._finite(at) THEN
    RAISE EXCEPTION 'No job can be added at %', at USING ERRCODE = '22023';
  END IF;
  IF is_ours THEN  -- nobody waits for a key for ever, unless the caller's transaction says so
    PERFORM set_config('lock_timeout', '20s', true);
  END IF;
  at_micros := {schema}._micros(at);
  ids := CASE WHEN starts_with(_jobs, '{') THEN {schema}._add_alike(_jobs::json, at)
    ELSE {schema}._add_jobs(_jobs::json, _is_keyed, at) END;
  IF _is_keyed THEN
    SELECT json_agg({schema}._row(j, w.name) ORDER BY x.place)::text INTO jobs
    FROM unnest(ids) WITH ORDINALITY AS x (id, place) JOIN {schema}._jobs AS j ON j.id = x.id
    LEFT JOIN {schema}._workers AS w ON w.id = j.worker;
  END IF;
  IF is_ours THEN
    PERFORM set_config('lock_timeout', '0', true);
  END IF;
END $$;
