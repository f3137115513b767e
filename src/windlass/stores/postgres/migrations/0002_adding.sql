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
-- an exponent or many digits, and as many brackets as it takes to be deep.
CREATE FUNCTION {schema}._sound(payload json) RETURNS json LANGUAGE sql IMMUTABLE
RETURN CASE
  WHEN payload::text ~ '\\u|[0-9][eE][+]?[0-9]{2}|[0-9]{25}'
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

-- Many jobs in one call: a JSON array of objects with the names of `windlass.store.records.NewJob`,
-- instants and delays in microseconds. Their ids, in the order given.
CREATE FUNCTION {schema}._add_jobs(_jobs json, _is_keyed boolean, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  is_due boolean;
  is_soon boolean;
  queues text[];
  spec record;
  numbers bigint[];
  mode text;
BEGIN
  IF NOT _is_keyed THEN
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
      bool_or(a.state <> 'scheduled'),
      bool_or(a.state = 'scheduled' AND a.run_at <= _at + {soon}),
      array_agg(DISTINCT a.queue) FILTER (WHERE a.state = 'waiting')
    INTO ids, is_due, is_soon, queues FROM added AS a;
    IF queues IS NOT NULL THEN
      INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(queues) AS q;
    END IF;
    IF is_due THEN
      PERFORM pg_notify({channel}, '');
    END IF;
    IF is_soon THEN
      PERFORM pg_notify({channel}, 'due');
    END IF;
    RETURN ids;
  END IF;
  numbers := ARRAY(
    SELECT nextval({sequence}) FROM generate_series(1, json_array_length(_jobs))
  );
  SELECT min(coalesce(x.key_mode, 'replace')) INTO mode
  FROM json_to_recordset(_jobs) AS x (key_mode text)
  HAVING count(*) > 1 AND count(DISTINCT coalesce(x.key_mode, 'replace')) = 1;
  -- In the order of their keys, as everybody locks rows: two calls at once never deadlock. One
  -- statement for many writes those that are new or wait; it locks, and leaves to the loop below,
  -- those that run, that are the head of a queue, or whose key comes for the second time.
  IF mode IN ('replace', 'preserve_run_at') THEN
    WITH given AS MATERIALIZED (
      SELECT x.*, numbers[x.place] AS number,
        row_number() OVER (PARTITION BY x.key ORDER BY x.place) AS turn
      FROM ROWS FROM (json_to_recordset(_jobs) AS (
        task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
        key text, priority integer, flags text[], keep float8
      )) WITH ORDINALITY AS x
        (task, payload, queue, run_at, delay, max_attempts, key, priority, flags, keep, place)
    ),
    written AS (
      INSERT INTO {schema}._jobs AS j
        (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
         key, queue, flags)
      SELECT
        g.number, d.due, _at, _at, g.keep, {schema}._due_state(d.due, g.queue, _at),
        coalesce(g.priority, 0), g.max_attempts,
        {schema}._accepted(g.task, g.queue, g.key, g.max_attempts, g.flags, g.keep),
        {schema}._sound(coalesce(g.payload, 'null')), g.key, g.queue, g.flags
      FROM given AS g
      CROSS JOIN LATERAL (SELECT {schema}._finite(coalesce(
        timestamptz 'epoch' + g.run_at * interval '1 microsecond',
        _at + coalesce(g.delay, 0) * interval '1 microsecond'
      )) AS due) AS d
      WHERE g.key IS NULL OR g.turn = 1
      ORDER BY g.key NULLS FIRST, g.place
      ON CONFLICT (key) WHERE key IS NOT NULL AND state <> 'cancelled' DO UPDATE SET
        task = excluded.task, payload = {schema}._joined(j.payload, excluded.payload),
        queue = excluded.queue, max_attempts = excluded.max_attempts,
        priority = excluded.priority, flags = excluded.flags, keep = excluded.keep,
        attempts = 0, resets = 0, suspect = false, last_error = NULL, progress = NULL,
        log = NULL, finished_at = NULL, revision = j.revision + 1, updated_at = _at,
        run_at = CASE
          WHEN mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0 THEN j.run_at
          ELSE excluded.run_at
        END,
        state = CASE
          WHEN mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0
            THEN {schema}._due_state(j.run_at, excluded.queue, _at)
          ELSE excluded.state
        END
      WHERE j.state <> 'running' AND (j.state <> 'ready' OR j.queue IS NULL)
      RETURNING j.id, j.key, j.queue, j.state, j.run_at
    )
    SELECT
      array_agg(coalesce(n.id, k.id) ORDER BY g.place),
      bool_or(coalesce(n.state, k.state) <> 'scheduled'),
      bool_or(coalesce(n.state, k.state) = 'scheduled'
        AND coalesce(n.run_at, k.run_at) <= _at + {soon}),
      array_agg(DISTINCT coalesce(n.queue, k.queue))
        FILTER (WHERE coalesce(n.state, k.state) = 'waiting')
    INTO ids, is_due, is_soon, queues
    FROM given AS g
    LEFT JOIN written AS n ON n.id = g.number
    LEFT JOIN written AS k ON k.key = g.key AND g.turn = 1;
    IF queues IS NOT NULL THEN
      INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(queues) AS q;
    END IF;
    IF is_due THEN
      PERFORM pg_notify({channel}, '');
    END IF;
    IF is_soon THEN
      PERFORM pg_notify({channel}, 'due');
    END IF;
    IF array_position(ids, NULL) IS NULL THEN
      RETURN ids;
    END IF;
  END IF;
  FOR spec IN
    SELECT x.* FROM ROWS FROM (json_to_recordset(_jobs) AS (
      task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
      key text, key_mode text, priority integer, flags text[], keep float8
    )) WITH ORDINALITY AS x
      (task, payload, queue, run_at, delay, max_attempts, key, key_mode, priority, flags,
       keep, place)
    WHERE ids[x.place] IS NULL
    ORDER BY x.key NULLS FIRST, x.place
  LOOP
    ids[spec.place] := {schema}._add_job(
      spec.task, coalesce(spec.payload, 'null'), spec.queue,
      {schema}._finite(coalesce(
        timestamptz 'epoch' + spec.run_at * interval '1 microsecond',
        _at + coalesce(spec.delay, 0) * interval '1 microsecond'
      )),
      spec.max_attempts, spec.key, coalesce(spec.key_mode, 'replace'),
      coalesce(spec.priority, 0), spec.flags, spec.keep, _at, numbers[spec.place]
    );
  END LOOP;
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
