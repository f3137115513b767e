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
          task = _task, payload = _payload, queue = _queue, run_at = due,
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
BEGIN
  IF NOT _is_keyed THEN
    WITH added AS (
      INSERT INTO {schema}._jobs AS j
        (run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
         queue, flags)
      SELECT
        d.due, _at, _at, x.keep, {schema}._due_state(d.due, x.queue, _at),
        coalesce(x.priority, 0), x.max_attempts, x.task, coalesce(x.payload, 'null'), x.queue,
        x.flags
      FROM ROWS FROM (json_to_recordset(_jobs) AS (
        task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
        priority integer, flags text[], keep float8
      )) WITH ORDINALITY AS x
        (task, payload, queue, run_at, delay, max_attempts, priority, flags, keep, place)
      CROSS JOIN LATERAL (SELECT least({last_instant}, coalesce(
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
  -- In the order of their keys, as everybody locks rows: two calls at once never deadlock.
  FOR spec IN
    SELECT n.*, n.number AS new_id FROM (
      SELECT x.*, nextval({sequence}) AS number FROM ROWS FROM (json_to_recordset(_jobs) AS (
        task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
        key text, key_mode text, priority integer, flags text[], keep float8
      )) WITH ORDINALITY AS x
        (task, payload, queue, run_at, delay, max_attempts, key, key_mode, priority, flags,
         keep, place)
    ) AS n
    ORDER BY n.key NULLS FIRST, n.place
  LOOP
    ids[spec.place] := {schema}._add_job(
      spec.task, coalesce(spec.payload, 'null'), spec.queue,
      least({last_instant}, coalesce(
        timestamptz 'epoch' + spec.run_at * interval '1 microsecond',
        _at + coalesce(spec.delay, 0) * interval '1 microsecond'
      )),
      spec.max_attempts, spec.key, coalesce(spec.key_mode, 'replace'),
      coalesce(spec.priority, 0), spec.flags, spec.keep, _at, spec.new_id
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
  due := least({last_instant}, coalesce(
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
      spec.task, p.value, spec.queue, spec.flags
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
