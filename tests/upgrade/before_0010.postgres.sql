--
-- PostgreSQL database dump
--


-- Dumped from database version 16.14
-- Dumped by pg_dump version 16.14

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: windlass; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA windlass;


--
-- Name: _edit; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass._edit AS (
	kind text,
	reason text,
	run_at timestamp with time zone,
	priority integer,
	attempts integer,
	max_attempts integer
);


--
-- Name: _job_state; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass._job_state AS ENUM (
    'blocked',
    'scheduled',
    'waiting',
    'ready',
    'running',
    'completed',
    'failed',
    'cancelled'
);


--
-- Name: _outcome; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass._outcome AS (
	kind text,
	output json,
	keep double precision,
	error text,
	delay double precision,
	run_at bigint,
	max_attempts integer,
	final boolean,
	payload json
);


--
-- Name: _request; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass._request AS (
	task text,
	payload json,
	queue text,
	due timestamp with time zone,
	max_attempts integer,
	key text,
	mode text,
	priority integer,
	flags text[],
	keep double precision
);


--
-- Name: job; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass.job AS (
	id bigint,
	queue_name text,
	task_identifier text,
	priority integer,
	run_at timestamp with time zone,
	attempts integer,
	max_attempts integer,
	last_error text,
	created_at timestamp with time zone,
	updated_at timestamp with time zone,
	key text,
	locked_at timestamp with time zone,
	locked_by text,
	revision integer,
	flags text[],
	payload json,
	state text
);


--
-- Name: job_spec; Type: TYPE; Schema: windlass; Owner: -
--

CREATE TYPE windlass.job_spec AS (
	identifier text,
	payload json,
	queue_name text,
	run_at timestamp with time zone,
	max_attempts integer,
	job_key text,
	priority integer,
	flags text[]
);


--
-- Name: _refuse(text, text, text, integer, text[], double precision); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._refuse(task text, queue text, key text, max_attempts integer, flags text[], keep double precision) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
  ELSIF keep IS DISTINCT FROM "windlass"._span(keep) THEN
    RAISE EXCEPTION 'A job cannot be kept for % seconds', keep USING ERRCODE = '22023';
  END IF;
  RAISE EXCEPTION 'Flags must be a list of at most 64 texts, none empty, 8192 characters in all'
    USING ERRCODE = '22023';
END $$;


--
-- Name: _accepted(text, text, text, integer, text[], double precision); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._accepted(task text, queue text, key text, max_attempts integer, flags text[], keep double precision) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN ((task IS NOT NULL) AND ((((length(task) >= 1) AND (length(task) <= 128)) AND ((length(queue) >= 1) AND (length(queue) <= 128)) AND ((length(key) >= 1) AND (length(key) <= 512)) AND (max_attempts >= 1) AND ((keep >= (0)::double precision) AND (keep <= (251603539200.0)::double precision)) AND (array_ndims(flags) = 1) AND (cardinality(flags) <= 64) AND ((flags IS NULL) OR ((array_position(flags, NULL::text) IS NULL) AND (array_position(flags, ''::text) IS NULL) AND (length(array_to_string(flags, ''::text)) <= 8192)))) IS NOT FALSE)) THEN task ELSE windlass._refuse(task, queue, key, max_attempts, flags, keep) END;


--
-- Name: _add_alike(json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_alike(_jobs json, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  spec record;
  due timestamptz;
  new_state "windlass"._job_state;
BEGIN
  SELECT x.* INTO spec FROM json_to_record(_jobs) AS x (
    task text, payloads json, queue text, run_at bigint, delay bigint, max_attempts integer,
    priority integer, flags text[], keep float8
  );
  spec.task := "windlass"._accepted(
    spec.task, spec.queue, NULL, spec.max_attempts, spec.flags, spec.keep);
  due := "windlass"._finite(coalesce(
    timestamptz 'epoch' + spec.run_at * interval '1 microsecond',
    _at + coalesce(spec.delay, 0) * interval '1 microsecond'
  ));
  new_state := "windlass"._due_state(due, spec.queue, _at);
  WITH added AS (
    INSERT INTO "windlass"._jobs AS j
      (run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       queue, flags)
    SELECT
      due, _at, _at, spec.keep, new_state, coalesce(spec.priority, 0), spec.max_attempts,
      spec.task, "windlass"._sound(p.value), spec.queue, spec.flags
    FROM json_array_elements(spec.payloads) AS p
    RETURNING j.id
  )
  SELECT array_agg(a.id) INTO ids FROM added AS a;
  IF new_state = 'waiting' THEN
    INSERT INTO "windlass"._bells (queue) VALUES (spec.queue);
  END IF;
  IF new_state <> 'scheduled' THEN
    PERFORM pg_notify('windlass:jobs', '');
  ELSIF due <= _at + interval '300 s' THEN
    PERFORM pg_notify('windlass:jobs', 'due');
  END IF;
  RETURN ids;
END $$;


--
-- Name: _add_job(text, json, text, timestamp with time zone, integer, text, text, integer, text[], double precision, timestamp with time zone, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_job(_task text, _payload json, _queue text, _run_at timestamp with time zone, _max_attempts integer, _key text, _mode text, _priority integer, _flags text[], _keep double precision, _at timestamp with time zone, _id bigint DEFAULT NULL::bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  old "windlass"._jobs;
  due timestamptz := _run_at;
  new_id bigint;
  new_state "windlass"._job_state;
BEGIN
  IF _mode NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'Job key mode must be replace, preserve_run_at or unsafe_dedupe, not %', _mode
      USING ERRCODE = 'GWBKM';
  END IF;
  _task := "windlass"._accepted(_task, _queue, _key, _max_attempts, _flags, _keep);
  _payload := "windlass"._sound(_payload);
  LOOP
    IF _key IS NOT NULL THEN
      SELECT j.* INTO old FROM "windlass"._jobs AS j
      WHERE j.key = _key AND j.state <> 'cancelled' FOR NO KEY UPDATE;
      IF FOUND AND _mode = 'unsafe_dedupe' THEN
        UPDATE "windlass"._jobs AS j SET revision = j.revision + 1, updated_at = _at
        WHERE j.id = old.id;
        RETURN old.id;
      ELSIF FOUND AND old.state = 'running' THEN
        -- It may complete, but not run again; the new request gets a row of its own.
        UPDATE "windlass"._jobs AS j SET key = NULL, superseded = true, updated_at = _at
        WHERE j.id = old.id;
      ELSIF FOUND THEN
        IF _mode = 'preserve_run_at' AND old.state <> 'failed' AND old.attempts = 0 THEN
          due := old.run_at;
        END IF;
        new_id := old.id;
        new_state := "windlass"._due_state(due, _queue, _at);
        UPDATE "windlass"._jobs AS j SET
          task = _task, payload = "windlass"._joined(j.payload, _payload), queue = _queue,
          run_at = due,
          max_attempts = _max_attempts, priority = _priority, flags = _flags, keep = _keep,
          attempts = 0, resets = 0, suspect = false, last_error = NULL, progress = NULL,
          log = NULL, finished_at = NULL, revision = j.revision + 1, updated_at = _at,
          state = new_state
        WHERE j.id = new_id;
        IF old.state = 'ready' AND old.queue IS NOT NULL THEN
          INSERT INTO "windlass"._bells (queue) VALUES (old.queue);
        END IF;
        EXIT;
      END IF;
    END IF;
    new_state := "windlass"._due_state(due, _queue, _at);
    INSERT INTO "windlass"._jobs AS j
      (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       key, queue, flags)
    VALUES
      (coalesce(_id, nextval('"windlass"._jobs_id_seq'::regclass)), due, _at, _at, _keep, new_state, _priority,
       _max_attempts, _task, _payload, _key, _queue, _flags)
    ON CONFLICT (key) WHERE key IS NOT NULL AND state <> 'cancelled' DO NOTHING
    RETURNING j.id INTO new_id;
    EXIT WHEN FOUND;
  END LOOP;
  IF new_state = 'waiting' THEN
    INSERT INTO "windlass"._bells (queue) VALUES (_queue);
  END IF;
  IF new_state <> 'scheduled' THEN
    PERFORM pg_notify('windlass:jobs', '');
  ELSIF due <= _at + interval '300 s' THEN
    PERFORM pg_notify('windlass:jobs', 'due');
  END IF;
  RETURN new_id;
END $$;


--
-- Name: _add_jobs(json, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_jobs(_jobs json, _is_keyed boolean, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  is_due boolean;
  is_soon boolean;
  queues text[];
  requests "windlass"._request[];
  mode text;
BEGIN
  IF _is_keyed THEN
    SELECT
      array_agg(ROW(
        x.task, coalesce(x.payload, 'null'), x.queue,
        "windlass"._finite(coalesce(
          timestamptz 'epoch' + x.run_at * interval '1 microsecond',
          _at + coalesce(x.delay, 0) * interval '1 microsecond'
        )),
        x.max_attempts, x.key, m.mode, coalesce(x.priority, 0), x.flags, x.keep
      )::"windlass"._request ORDER BY x.place),
      CASE WHEN min(m.mode) = max(m.mode) THEN min(m.mode) END
    INTO requests, mode
    FROM ROWS FROM (json_to_recordset(_jobs) AS (
      task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
      key text, key_mode text, priority integer, flags text[], keep float8
    )) WITH ORDINALITY AS x
      (task, payload, queue, run_at, delay, max_attempts, key, key_mode, priority, flags, keep,
       place)
    CROSS JOIN LATERAL (SELECT coalesce(x.key_mode, 'replace') AS mode) AS m;
    RETURN "windlass"._add_keyed(requests, mode, _at);
  END IF;
  WITH added AS (
    INSERT INTO "windlass"._jobs AS j
      (run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       queue, flags)
    SELECT
      d.due, _at, _at, x.keep, "windlass"._due_state(d.due, x.queue, _at),
      coalesce(x.priority, 0), x.max_attempts,
      "windlass"._accepted(x.task, x.queue, NULL, x.max_attempts, x.flags, x.keep),
      "windlass"._sound(coalesce(x.payload, 'null')), x.queue, x.flags
    FROM ROWS FROM (json_to_recordset(_jobs) AS (
      task text, payload json, queue text, run_at bigint, delay bigint, max_attempts integer,
      priority integer, flags text[], keep float8
    )) WITH ORDINALITY AS x
      (task, payload, queue, run_at, delay, max_attempts, priority, flags, keep, place)
    CROSS JOIN LATERAL (SELECT "windlass"._finite(coalesce(
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
    bool_or(a.state = 'scheduled' AND a.run_at <= _at + interval '300 s')
  INTO ids, queues, is_due, is_soon FROM added AS a;
  PERFORM "windlass"._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;


--
-- Name: _add_keyed(windlass._request[], text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_keyed(_requests windlass._request[], _mode text, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  request record;
  numbers bigint[];
BEGIN
  numbers := ARRAY(
    SELECT nextval('"windlass"._jobs_id_seq'::regclass) FROM generate_series(1, cardinality(_requests))
  );
  IF _mode IN ('replace', 'preserve_run_at') AND cardinality(_requests) > 1 THEN
    IF NOT EXISTS (
      SELECT FROM unnest(_requests) AS r WHERE (
        SELECT true FROM "windlass"._jobs AS j WHERE j.key = r.key AND j.state <> 'cancelled'
      )
    ) THEN
      BEGIN
        RETURN "windlass"._write_new(_requests, numbers, _mode, _at);
      EXCEPTION WHEN unique_violation THEN
        NULL;  -- undone: a key has come meanwhile, or comes twice
      END;
    END IF;
    ids := "windlass"._write_any(_requests, numbers, _mode, _at);
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
    ids[request.place] := "windlass"._add_job(
      request.task, request.payload, request.queue, request.due, request.max_attempts,
      request.key, request.mode, request.priority, request.flags, request.keep, _at,
      numbers[request.place]
    );
  END LOOP;
  RETURN ids;
END $$;


--
-- Name: _admit(text[], integer, text[], bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._admit(_tasks text[], _limit integer, _forbidden text[], _after bigint, OUT is_more boolean, OUT heads tid[], OUT bells bigint[], OUT admitted bigint[], OUT heard bigint[], OUT kept bigint[], OUT last bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  most CONSTANT integer := 1000;
  numbers bigint[];
  rung text[];
  found_heads tid[];
  found_bells bigint[];
  found_queues text[];
  served text[] := '{}';
  foreign_heads tid[];
  unanswered bigint[];
  unanswered_queues text[];
BEGIN
  is_more := false;
  heads := '{}';
  bells := '{}';
  admitted := '{}';
  heard := '{}';
  kept := '{}';
  last := _after;
  IF NOT EXISTS (SELECT FROM "windlass"._bells AS b WHERE b.n > _after) THEN
    RETURN;
  END IF;
  IF NOT pg_try_advisory_xact_lock('5999473032045165895'::bigint) THEN
    is_more := true;
    RETURN;
  END IF;
  FOR look IN 1 .. 4 LOOP
    SELECT count(*) = most, coalesce(max(f.n), last), array_agg(f.n), array_agg(f.queue)
    INTO is_more, last, numbers, rung FROM (
      SELECT b.n, b.queue FROM "windlass"._bells AS b WHERE b.n > last ORDER BY b.n LIMIT most
    ) AS f;
    heard := heard || numbers;
    IF EXISTS (SELECT FROM "windlass"._paused AS p WHERE p.kind = 'queue') THEN
      SELECT array_agg(u.n), array_agg(u.name) INTO numbers, rung
      FROM unnest(numbers, rung) AS u (n, name)
      WHERE NOT EXISTS (
        SELECT FROM "windlass"._paused AS p WHERE p.kind = 'queue' AND p.name = u.name
      );
    END IF;
    SELECT
      array_agg(h.tid) FILTER (WHERE h.is_ours),
      array_agg(q.n) FILTER (WHERE h.is_ours),
      array_agg(q.name) FILTER (WHERE h.is_ours),
      array_agg(h.tid) FILTER (WHERE NOT h.is_ours),
      array_agg(q.n) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL),
      array_agg(q.name) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL)
    INTO found_heads, found_bells, found_queues, foreign_heads, unanswered, unanswered_queues
    FROM (
      -- A queue that has a head by an earlier look gets no other: a better job may have come since.
      SELECT u.name, min(u.n) AS n FROM unnest(numbers, rung) AS u (n, name)
      WHERE u.name NOT IN (SELECT unnest(served)) GROUP BY u.name
    ) AS q
    LEFT JOIN LATERAL (
      SELECT true AS is_busy FROM "windlass"._jobs AS j
      WHERE j.queue = q.name AND j.queue IS NOT NULL AND j.state IN ('ready', 'running') LIMIT 1
    ) AS a ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM "windlass"._jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name AND a.is_busy IS NULL
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS h ON true;
    heads := heads || found_heads;
    bells := bells || found_bells;
    served := served || found_queues;
    IF foreign_heads IS NOT NULL THEN
      admitted := admitted || "windlass"._make_ready(foreign_heads);
    END IF;
    IF unanswered IS NOT NULL THEN
      kept := kept || ARRAY(
        SELECT q.n FROM unnest(unanswered, unanswered_queues) AS q (n, name)
        CROSS JOIN LATERAL (
          SELECT FROM "windlass"._jobs AS w WHERE w.state = 'waiting' AND w.queue = q.name
          ORDER BY w.priority, w.run_at, w.id LIMIT 1
        ) AS h
      );
    END IF;
    EXIT WHEN NOT is_more OR cardinality(heads) >= _limit;
  END LOOP;
END $$;


--
-- Name: _announce(text[], boolean, boolean); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._announce(_queues text[], _is_due boolean, _is_soon boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _queues <> '{}' THEN
    INSERT INTO "windlass"._bells (queue) SELECT q FROM unnest(_queues) AS q;
  END IF;
  IF _is_due THEN
    PERFORM pg_notify('windlass:jobs', '');
  END IF;
  IF _is_soon THEN
    PERFORM pg_notify('windlass:jobs', 'due');
  END IF;
  RETURN true;
END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: _jobs; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._jobs (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    token bigint,
    worker bigint,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    lease double precision,
    finished_at timestamp with time zone,
    keep double precision,
    state windlass._job_state NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    deliveries integer DEFAULT 0 NOT NULL,
    revision integer DEFAULT 0 NOT NULL,
    resets integer DEFAULT 0 NOT NULL,
    max_attempts integer,
    suspect boolean DEFAULT false NOT NULL,
    superseded boolean DEFAULT false NOT NULL,
    cancel_requested boolean DEFAULT false NOT NULL,
    task text NOT NULL,
    payload json NOT NULL,
    key text,
    queue text,
    flags text[],
    last_error text,
    progress json,
    log json,
    meta jsonb
)
WITH (autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0.0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0.05', autovacuum_analyze_threshold='5000', autovacuum_vacuum_cost_delay='1');


--
-- Name: _as_completed(windlass._jobs, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._as_completed(j windlass._jobs, at timestamp with time zone) RETURNS windlass._jobs
    LANGUAGE sql IMMUTABLE
    RETURN ROW((j).id, (j).run_at, (j).created_at, at, (j).token, (j).worker, (j).claimed_at, (j).lease_until, (j).lease, at, (j).keep, 'completed'::windlass._job_state, (j).priority, (j).attempts, (j).deliveries, (j).revision, (j).resets, (j).max_attempts, (j).suspect, (j).superseded, (j).cancel_requested, (j).task, (j).payload, (j).key, (j).queue, (j).flags, (j).last_error, (j).progress, (j).log, (j).meta)::windlass._jobs;


--
-- Name: _as_running(windlass._jobs, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._as_running(j windlass._jobs, _base bigint, _worker bigint, _claimed_at timestamp with time zone) RETURNS windlass._jobs
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  j.state := 'running';
  j.token := _base + j.id;
  j.worker := _worker;
  j.claimed_at := _claimed_at;
  j.attempts := j.attempts + 1;
  j.deliveries := 1;
  RETURN j;
END $$;


--
-- Name: _workers; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._workers (
    id bigint NOT NULL,
    name text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    lease double precision NOT NULL,
    refused bigint[],
    tasks text[]
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='500');


--
-- Name: _beat(text, double precision, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._beat(_worker text, _lease double precision, _now timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO windlass._workers AS w (name, expires_at, lease)
   VALUES (_beat._worker, (COALESCE(_beat._now, clock_timestamp()) + make_interval(secs => _beat._lease)), _beat._lease) ON CONFLICT(name) DO UPDATE SET expires_at = (COALESCE(_beat._now, clock_timestamp()) + make_interval(secs => excluded.lease)), lease = excluded.lease
   RETURNING w.id;
END;


--
-- Name: _cancel_jobs(bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._cancel_jobs(_ids bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j "windlass"._jobs;
BEGIN
  _ids := ("windlass"._unbatch(_ids, true)).locked;
  FOR j IN
    SELECT k.* FROM "windlass"._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'waiting', 'ready', 'running')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  LOOP
    IF j.state = 'running' THEN
      UPDATE "windlass"._jobs AS k SET cancel_requested = true, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    ELSE
      IF j.state = 'ready' AND j.queue IS NOT NULL THEN
        INSERT INTO "windlass"._bells (queue) VALUES (j.queue);
        PERFORM pg_notify('windlass:jobs', '');
      END IF;
      UPDATE "windlass"._jobs AS k SET
        state = 'cancelled', superseded = false, finished_at = at, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    END IF;
    RETURN NEXT j;
  END LOOP;
END $$;


--
-- Name: _change(bigint[], windlass._edit, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._change(_ids bigint[], _edit windlass._edit, _at timestamp with time zone) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  bases bigint[];
  held int8multirange;
  heads text[];
BEGIN
  SELECT s.bases, s.held INTO bases, held FROM "windlass"._seen(_ids) AS s;
  IF held IS NOT NULL THEN
    BEGIN
      RETURN QUERY SELECT c.* FROM "windlass"._change_open(_ids, _edit, _at, bases, held) AS c;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'WLBAT' THEN
      NULL;  -- undone: go on behind locks
    END;
  END IF;
  SELECT u.locked, u.heads INTO _ids, heads FROM "windlass"._unbatch(_ids, false) AS u;
  PERFORM "windlass"._announce(heads, heads IS NOT NULL, false);
  RETURN QUERY SELECT c.* FROM "windlass"._change_open(_ids, _edit, _at, NULL, NULL) AS c;
END $$;


--
-- Name: _change_open(bigint[], windlass._edit, timestamp with time zone, bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._change_open(_ids bigint[], _edit windlass._edit, _at timestamp with time zone, _bases bigint[], _held int8multirange) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _edit.kind = 'complete' THEN
    IF _held IS NULL THEN
      INSERT INTO "windlass"._history
        (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts,
         deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error,
         progress, log, meta)
      SELECT
        k.id, k.run_at, k.created_at, _at, _at + make_interval(secs => "windlass"._span(k.keep)),
        k.token, k.keep, k.priority, k.attempts, k.deliveries, k.revision, k.resets,
        k.max_attempts, k.task, k.payload, k.key, k.queue, k.flags, k.last_error, k.progress,
        k.log, k.meta
      FROM "windlass"._jobs AS k
      WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, NULL) AND "windlass"._span(k.keep) > 0;
    END IF;
    RETURN QUERY
    DELETE FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _held)
    RETURNING ("windlass"._public("windlass"._as_completed(k, _at), NULL)).*;
  ELSIF _edit.kind = 'fail' THEN
    RETURN QUERY
    UPDATE "windlass"._jobs AS k SET
      state = 'failed', attempts = coalesce(k.max_attempts, 25),
      last_error = _edit.reason, finished_at = _at, updated_at = _at
    WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _held)
    RETURNING ("windlass"._public(k, NULL)).*;
  ELSE
    RETURN QUERY
    UPDATE "windlass"._jobs AS k SET
      run_at = coalesce(_edit.run_at, k.run_at), priority = coalesce(_edit.priority, k.priority),
      attempts = coalesce(_edit.attempts, k.attempts),
      max_attempts = coalesce(_edit.max_attempts, k.max_attempts),
      state = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL OR coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, 25) THEN 'failed'
        ELSE "windlass"._due_state(coalesce(_edit.run_at, k.run_at), k.queue, _at)
      END,
      finished_at = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL THEN k.finished_at
        WHEN coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, 25) THEN _at
      END,
      updated_at = _at
    WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _held)
    RETURNING ("windlass"._public(k, NULL)).*;
    PERFORM "windlass"._announce(
      array_agg(k.queue) FILTER (WHERE k.state = 'waiting'),
      bool_or(k.state IN ('ready', 'waiting')),
      bool_or(k.state = 'scheduled' AND k.run_at <= _at + interval '300 s')
    ) FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _held);
  END IF;
  IF _held IS NOT NULL THEN
    PERFORM "windlass"._look_again(_ids, _bases);
  END IF;
END $$;


--
-- Name: _check(bigint[], bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._check(_ids bigint[], _tokens bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  old bigint[];
BEGIN
  SELECT array_agg(b.base), array_agg(b.base) FILTER (WHERE b.claimed_at < at - interval '1 s')
  INTO bases, old FROM "windlass"._batches AS b WHERE EXISTS (
    SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
  );
  -- With one snapshot for the whole call it would fail whenever one of them is settled meanwhile.
  IF old IS NOT NULL AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM "windlass"._spread(old);
  END IF;
  RETURN QUERY
  SELECT x.id, CASE
    WHEN j.state = 'running' AND j.token = x.token THEN 'cancel'
    WHEN h.id IS NOT NULL THEN 'already_completed'
    WHEN j.id IS NULL THEN 'not_found'
    WHEN j.state IN ('completed', 'failed', 'cancelled') THEN 'already_completed'
    ELSE 'taken_by_another_worker'
  END
  FROM unnest(_ids, _tokens) AS x (id, token)
  LEFT JOIN "windlass"._jobs AS j ON j.id = x.id
  LEFT JOIN "windlass"._history AS h ON h.id = x.id
  WHERE j.id IS NULL OR j.cancel_requested OR NOT (
    j.state = 'running' AND j.token = x.token
    OR j.state = 'ready' AND j.deliveries = 0 AND x.token - x.id = ANY (bases)
  ) IS TRUE;
END $$;


--
-- Name: _claim(text, text[], integer, integer, double precision, bigint, jsonb, text[], boolean, text, bigint[], bigint, integer, bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._claim(_worker text, _tasks text[], _limit integer, _suspects integer, _lease double precision, _base bigint, _longer jsonb, _forbidden text[], _past_heads boolean, _after text, _marks bigint[], _bell bigint, _least integer, _ended bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT leases text, OUT is_batch boolean, OUT is_more boolean, OUT next_after text, OUT next_bell bigint, OUT entries bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  is_paused boolean;
  is_rung boolean;
  admission record;
  exchange record;
  heads tid[] := '{}';
  left_over tid[];
  kept_bells bigint[] := '{}';
  is_over boolean := false;
  picked tid[];
  spare bigint;
  spans integer;
  ids int8multirange;
  plain bigint[] := '{}';
  others text;
  before bigint := pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready'::regclass)
    + pg_stat_get_xact_tuples_returned('"windlass"._bells_pkey'::regclass);
  batches_before bigint := pg_stat_get_xact_tuples_returned('"windlass"._batches_pkey'::regclass);
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM "windlass"._need_read_committed();
  END IF;
  is_more := false;
  next_after := _after;
  next_bell := _bell;
  -- One question for what is seldom so: a claim should cost little where there is nothing else to do.
  SELECT
    (SELECT w.id FROM "windlass"._workers AS w
     WHERE w.name = _worker AND w.expires_at > at + make_interval(secs => _lease * 2 / 3)
       AND w.expires_at <= at + make_interval(secs => _lease)),
    EXISTS (SELECT FROM "windlass"._paused),
    EXISTS (SELECT FROM "windlass"._bells AS b WHERE b.n > _bell)
  INTO number, is_paused, is_rung;
  IF number IS NULL THEN
    number := "windlass"._beat(_worker, _lease, _now);
  END IF;
  IF _ended <> '{}' THEN
    DELETE FROM "windlass"._batches AS b WHERE b.base = ANY (ARRAY(
      SELECT c.base FROM "windlass"._batches AS c WHERE c.base = ANY (_ended)
      FOR UPDATE SKIP LOCKED
    ));
  END IF;
  IF is_paused THEN
    SELECT coalesce(array_agg(t.name ORDER BY t.n), '{}'), coalesce(array_agg(
      ARRAY[_marks[t.n][1], _marks[t.n][2], _marks[t.n][3]] ORDER BY t.n), '{}')
    INTO _tasks, _marks FROM unnest(_tasks) WITH ORDINALITY AS t (name, n)
    WHERE NOT EXISTS (SELECT FROM "windlass"._paused AS p WHERE p.kind = 'task' AND p.name = t.name);
  END IF;
  IF is_rung THEN
    admission := "windlass"._admit(_tasks, _limit, _forbidden, _bell);
    heads := admission.heads;
    kept_bells := admission.kept;
    is_more := admission.is_more;
    next_bell := admission.last;
  END IF;
  IF _past_heads THEN
    exchange := "windlass"._exchange_heads(_tasks, _forbidden, _after);
    next_after := exchange.next_after;
  END IF;
  SELECT p.picked, p.spare, p.spans INTO picked, spare, spans
  FROM "windlass"._pick(_tasks, _limit, _suspects, _forbidden, _marks) AS p;
  IF heads <> '{}' AND cardinality(picked) + cardinality(heads) > _limit THEN
    is_over := true;
    SELECT
      coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'ready' AND o.place <= _limit), '{}'),
      coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place <= _limit), '{}'),
      array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place > _limit)
    INTO picked, heads, left_over FROM (
      SELECT j.ctid AS tid, j.state,
        row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS place
      FROM "windlass"._jobs AS j WHERE j.ctid = ANY (picked || heads)
    ) AS o;
    -- Looked at again by the next claim they cost less than written twice, if they are not many.
    IF cardinality(left_over) > _limit THEN
      PERFORM "windlass"._make_ready(left_over);
    ELSIF left_over IS NOT NULL THEN
      SELECT kept_bells || array_agg(h.n), least(next_bell, min(h.n) - 1)
      INTO kept_bells, next_bell FROM unnest(left_over) AS l (tid)
      JOIN unnest(admission.heads, admission.bells) AS h (tid, n) ON h.tid = l.tid;
    END IF;
  END IF;
  -- Entries of ended batches, too, stay in their index while an old snapshot is open, and every
  -- claim reads them all: so many must not become more.
  IF cardinality(picked) >= _least
    AND pg_stat_get_xact_tuples_returned('"windlass"._batches_pkey'::regclass) - batches_before < 2000
  THEN
    SELECT array_agg(j.id), string_agg("windlass"._lease(j, _base, 1, to_json(_worker)), ',')
    INTO plain, leases FROM "windlass"._jobs AS j
    WHERE j.ctid = ANY (picked) AND j.deliveries = 0 AND j.key IS NULL AND j.queue IS NULL
      AND NOT _longer ? j.task;
  END IF;
  -- Every claim reads all ranges of ids that batches have. Where jobs in between are other workers'
  -- or have keys there is one for each job, and beyond so many it costs less to write the rows.
  is_batch := cardinality(plain) >= _least;
  -- Those who end a worker, and those who ask what became of this claim, lock its row. Whoever came
  -- first, this claim is seen by them or sees them, and must then not happen: it is made again, or
  -- was given up. It does not wait for them, since it holds jobs, and maybe the latch.
  IF cardinality(picked) + cardinality(heads) > 0 THEN
    PERFORM FROM "windlass"._workers AS w
    WHERE w.id = number AND (w.refused IS NULL OR _base <> ALL (w.refused))
    FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'The worker % was ended, or has given up this claim', _worker
        USING ERRCODE = 'serialization_failure';
    END IF;
  END IF;
  IF is_batch THEN
    ids := "windlass"._spans(plain);
    is_batch := spans + (SELECT count(*) FROM unnest(ids)) <= 4000;
  END IF;
  IF is_batch THEN
    INSERT INTO "windlass"._batches (base, worker, claimed_at, ids)
    VALUES (_base, number, at, ids);
  ELSE
    plain := '{}';
    leases := NULL;
  END IF;
  IF cardinality(picked) + cardinality(heads) > cardinality(plain) THEN
    WITH given AS (
      UPDATE "windlass"._jobs AS j SET
        state = 'running', token = _base + j.id, worker = number, claimed_at = at,
        attempts = j.attempts + 1, deliveries = j.deliveries + 1,
        lease_until = at + make_interval(secs => (_longer ->> j.task)::float8),
        lease = (_longer ->> j.task)::float8
      WHERE j.ctid = ANY (picked || heads) AND NOT (
        is_batch AND j.deliveries = 0 AND j.key IS NULL AND j.queue IS NULL
        AND NOT _longer ? j.task
      )
      RETURNING j.*
    )
    SELECT string_agg("windlass"._lease(g, _base, 0, to_json(_worker)), ',') INTO others
    FROM given AS g;
  END IF;
  leases := '[' || concat_ws(',', leases, others) || ']';
  entries := pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready'::regclass)
    + pg_stat_get_xact_tuples_returned('"windlass"._bells_pkey'::regclass) - before - spare;
  IF _past_heads THEN
    PERFORM "windlass"._put_back(exchange.heads, exchange.candidates);
  END IF;
  IF is_rung THEN
    IF kept_bells <> '{}' THEN
      admission.heard := ARRAY(
        SELECT h.n FROM unnest(admission.heard) AS h (n)
        WHERE h.n NOT IN (SELECT k.n FROM unnest(kept_bells) AS k (n))
      );
    END IF;
    DELETE FROM "windlass"._bells AS b WHERE b.n = ANY (admission.heard);
    -- What this call made ready or held, and does not take, is for others.
    PERFORM pg_notify('windlass:jobs', '') WHERE is_over OR EXISTS (
      SELECT FROM "windlass"._jobs AS j WHERE j.id = ANY (admission.admitted) AND j.state = 'ready'
    );
  END IF;
END $$;


--
-- Name: _claimed(text, double precision, bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._claimed(_worker text, _lease double precision, _bases bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET lock_timeout TO '5s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  number bigint;
BEGIN
  number := "windlass"._beat(_worker, _lease, _now);
  PERFORM FROM "windlass"._workers AS w WHERE w.id = number FOR UPDATE;
  UPDATE "windlass"._workers AS w
  SET refused = _bases || w.refused[:100] WHERE w.id = number;
  RETURN (SELECT '[' || string_agg(x.lease, ',') || ']' FROM (
    SELECT "windlass"._lease(j, j.token - j.id, 0, to_json(_worker)) AS lease
    FROM "windlass"._jobs AS j
    WHERE j.state = 'running' AND j.worker = number AND j.token - j.id = ANY (_bases)
    UNION ALL
    SELECT "windlass"._lease(j, b.base, 1, to_json(_worker))
    FROM "windlass"._in_batches AS b JOIN "windlass"._jobs AS j ON j.id = b.id
    WHERE b.base = ANY (_bases) AND j.state = 'ready' AND j.deliveries = 0
  ) AS x);
END $$;


--
-- Name: _complete_jobs(bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._complete_jobs(_ids bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  rows "windlass"._jobs[];
BEGIN
  _ids := ("windlass"._unbatch(_ids, false)).locked;
  rows := ARRAY(SELECT k FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids));
  _ids := ARRAY(
    SELECT c.id FROM "windlass"._change(
      _ids, ROW('complete', NULL, NULL, NULL, NULL, NULL)::"windlass"._edit, at) AS c
  );
  RETURN QUERY
  SELECT ("windlass"._as_completed(k, at)).* FROM unnest(rows) AS k WHERE k.id = ANY (_ids);
END $$;


--
-- Name: _delete_failed(integer); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._delete_failed(_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM "windlass"._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM "windlass"._jobs AS o WHERE o.state = 'failed'
    ORDER BY o.finished_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END $$;


--
-- Name: _due_state(timestamp with time zone, text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._due_state(run_at timestamp with time zone, queue text, at timestamp with time zone) RETURNS windlass._job_state
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (run_at > at) THEN 'scheduled'::windlass._job_state WHEN (queue IS NULL) THEN 'ready'::windlass._job_state ELSE 'waiting'::windlass._job_state END;


--
-- Name: _end(windlass._jobs, windlass._outcome, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._end(j windlass._jobs, o windlass._outcome, at timestamp with time zone) RETURNS windlass._job_state
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  new_state "windlass"._job_state;
  due timestamptz := j.run_at;
  kept float8 := coalesce("windlass"._span(j.keep), o.keep);
BEGIN
  IF o.kind = 'complete' THEN
    DELETE FROM "windlass"._jobs AS k WHERE k.id = j.id;
    IF kept > 0 THEN
      j.keep := kept;
      PERFORM "windlass"._file(j, o.output, at);
    END IF;
    new_state := 'completed';
  ELSE
    IF o.kind = 'cancel' THEN
      new_state := 'cancelled';
    ELSIF o.kind = 'release' THEN
      j.attempts := j.attempts - 1;
      IF j.superseded THEN
        new_state := 'failed';
        j.last_error := 'replaced or removed by its key while it ran, and did not complete';
      ELSIF j.cancel_requested THEN
        new_state := 'cancelled';
      ELSE
        new_state := "windlass"._due_state(at, j.queue, at);
      END IF;
    ELSE
      j.last_error := o.error;
      j.suspect := false;
      j.payload := coalesce(o.payload, j.payload);
      IF o.final OR j.superseded OR j.attempts >= coalesce(j.max_attempts, o.max_attempts) THEN
        new_state := 'failed';
      ELSIF j.cancel_requested THEN
        new_state := 'cancelled';
      ELSE
        due := least(timestamptz '9999-12-31T23:59:59+00:00', coalesce(
          timestamptz 'epoch' + o.run_at * interval '1 microsecond',
          at + make_interval(secs => o.delay)
        ));
        new_state := "windlass"._due_state(due, j.queue, at);
      END IF;
    END IF;
    UPDATE "windlass"._jobs AS k SET
      state = new_state, run_at = due, attempts = j.attempts, suspect = j.suspect,
      payload = j.payload, last_error = j.last_error, updated_at = at,
      finished_at = CASE WHEN new_state IN ('failed', 'cancelled') THEN at END,
      superseded = false, cancel_requested = false,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = j.id;
    IF new_state IN ('ready', 'waiting') THEN
      PERFORM pg_notify('windlass:jobs', '');
    ELSIF new_state = 'scheduled' AND due <= at + interval '300 s' THEN
      PERFORM pg_notify('windlass:jobs', 'due');
    END IF;
  END IF;
  IF j.queue IS NOT NULL THEN
    INSERT INTO "windlass"._bells (queue) VALUES (j.queue);
  END IF;
  RETURN new_state;
END $$;


--
-- Name: _enqueue(text, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._enqueue(_jobs text, _is_keyed boolean, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT at_micros bigint, OUT ids bigint[], OUT jobs text) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  is_ours boolean := _is_keyed AND current_setting('lock_timeout') = '0';
BEGIN
  IF at <> "windlass"._finite(at) THEN
    RAISE EXCEPTION 'No job can be added at %', at USING ERRCODE = '22023';
  END IF;
  IF is_ours THEN  -- nobody waits for a key for ever, unless the caller's transaction says so
    PERFORM set_config('lock_timeout', '20s', true);
  END IF;
  at_micros := "windlass"._micros(at);
  ids := CASE WHEN starts_with(_jobs, '{') THEN "windlass"._add_alike(_jobs::json, at)
    ELSE "windlass"._add_jobs(_jobs::json, _is_keyed, at) END;
  IF _is_keyed THEN
    SELECT json_agg("windlass"._row(j, w.name) ORDER BY x.place)::text INTO jobs
    FROM unnest(ids) WITH ORDINALITY AS x (id, place) JOIN "windlass"._jobs AS j ON j.id = x.id
    LEFT JOIN "windlass"._workers AS w ON w.id = j.worker;
  END IF;
  IF is_ours THEN
    PERFORM set_config('lock_timeout', '0', true);
  END IF;
END $$;


--
-- Name: _exchange_heads(text[], text[], text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._exchange_heads(_tasks text[], _forbidden text[], _after text, OUT heads bigint[], OUT candidates bigint[], OUT next_after text) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  most integer := greatest(1, least(200, 2000 / greatest(cardinality(_tasks), 1)));
  swap record;
  held record;
BEGIN
  heads := '{}';
  candidates := '{}';
  next_after := '';
  IF NOT pg_try_advisory_xact_lock('5999473032045165895'::bigint) THEN
    next_after := _after;
    RETURN;
  END IF;
  FOR swap IN
    WITH RECURSIVE step (task, queue, n) AS (
      SELECT t.name, (
        SELECT w.queue FROM "windlass"._jobs AS w
        WHERE w.state = 'waiting' AND w.task = t.name AND w.queue > _after
        ORDER BY w.queue LIMIT 1
      ), 1
      FROM unnest(_tasks) AS t (name)
      UNION ALL
      SELECT s.task, (
        SELECT w.queue FROM "windlass"._jobs AS w
        WHERE w.state = 'waiting' AND w.task = s.task AND w.queue > s.queue
        ORDER BY w.queue LIMIT 1
      ), s.n + 1
      FROM step AS s WHERE s.queue IS NOT NULL AND s.n < most
    )
    SELECT DISTINCT ON (s.queue)
      s.queue, h.id AS head, c.id AS candidate,
      (SELECT min(x.queue) FROM step AS x WHERE x.n = most) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM "windlass"._jobs AS h
      WHERE h.queue = s.queue AND h.queue IS NOT NULL AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      (h.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS NOT TRUE OR h.flags && _forbidden
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM "windlass"._jobs AS w
      WHERE w.state = 'waiting' AND w.task = s.task AND w.queue = s.queue AND h.id IS NOT NULL
        AND (w.flags && _forbidden) IS NOT TRUE
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '');
    CONTINUE WHEN swap.candidate IS NULL;
    SELECT j.id INTO held FROM "windlass"._jobs AS j
    WHERE j.id = swap.candidate AND j.state = 'waiting' AND j.queue = swap.queue
    FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE "windlass"._jobs AS j SET state = 'waiting' WHERE j.id = (
      SELECT k.id FROM "windlass"._jobs AS k
      WHERE k.id = swap.head AND k.state = 'ready' AND k.queue = swap.queue
      FOR NO KEY UPDATE SKIP LOCKED
    );
    CONTINUE WHEN NOT FOUND;
    UPDATE "windlass"._jobs AS j SET state = 'ready' WHERE j.id = swap.candidate;
    heads := heads || swap.head;
    candidates := candidates || swap.candidate;
  END LOOP;
END $$;


--
-- Name: _fail_jobs(bigint[], text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._fail_jobs(_ids bigint[], _reason text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM "windlass"._change(
      _ids, ROW('fail', _reason, NULL, NULL, NULL, NULL)::"windlass"._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids);
END $$;


--
-- Name: _span(double precision); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._span(keep double precision) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ((keep >= (0)::double precision) AND (keep <= (251603539200.0)::double precision)) THEN keep ELSE NULL::double precision END;


--
-- Name: _history; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._history (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    token bigint,
    keep double precision,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    deliveries integer NOT NULL,
    revision integer NOT NULL,
    resets integer NOT NULL,
    max_attempts integer,
    task text NOT NULL,
    payload json NOT NULL,
    key text,
    queue text,
    flags text[],
    last_error text,
    output json,
    progress json,
    log json,
    meta jsonb
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='5000');


--
-- Name: _file(windlass._jobs, json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._file(j windlass._jobs, _output json, _at timestamp with time zone) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO windlass._history (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts, deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error, output, progress, log, meta)
   VALUES ((_file.j).id, (_file.j).run_at, (_file.j).created_at, _file._at, (_file._at + make_interval(secs => windlass._span((_file.j).keep))), (_file.j).token, (_file.j).keep, (_file.j).priority, (_file.j).attempts, (_file.j).deliveries, (_file.j).revision, (_file.j).resets, (_file.j).max_attempts, (_file.j).task, (_file.j).payload, (_file.j).key, (_file.j).queue, (_file.j).flags, (_file.j).last_error, _file._output, (_file.j).progress, (_file.j).log, (_file.j).meta);
END;


--
-- Name: _finite(timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._finite(instant timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (instant IS NOT NULL) THEN LEAST(GREATEST(instant, '1970-01-01 00:00:00+00'::timestamp with time zone), '9999-12-31 23:59:59+00'::timestamp with time zone) ELSE NULL::timestamp with time zone END;


--
-- Name: _fire(text, timestamp with time zone, timestamp with time zone, text, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._fire(_identifier text, _expected timestamp with time zone, _until timestamp with time zone, _jobs text, _is_keyed boolean, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT verdict text, OUT floor_micros bigint) RETURNS record
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, clock_timestamp());
  s "windlass"._schedules;
BEGIN
  SELECT k.* INTO s FROM "windlass"._schedules AS k WHERE k.identifier = _identifier FOR UPDATE;
  floor_micros := coalesce("windlass"._micros(s.floor_at), 0);
  verdict := CASE
    WHEN s.identifier IS NULL THEN 'missing'
    WHEN s.paused_at IS NOT NULL THEN 'paused'
    WHEN s.floor_at <> _expected OR _until <= s.floor_at THEN 'lost'
    WHEN _until > at THEN 'early'
    ELSE 'applied'
  END;
  IF verdict = 'applied' THEN
    UPDATE "windlass"._schedules AS k SET floor_at = _until, last_at = _until
    WHERE k.identifier = _identifier;
    floor_micros := "windlass"._micros(_until);
    PERFORM "windlass"._add_jobs(_jobs::json, _is_keyed, at);
  END IF;
END $$;


--
-- Name: _too_large(json, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._too_large(payload json, most bigint) RETURNS json
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RAISE EXCEPTION 'Payload has % bytes, more than the % allowed', octet_length(payload::text), most
    USING ERRCODE = 'WLPAY',
      HINT = 'Store the data elsewhere and pass its id, or set windlass.max_payload.';
END $$;


--
-- Name: _fitting(json, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._fitting(payload json, most bigint) RETURNS json
    LANGUAGE sql STABLE
    RETURN CASE WHEN (payload IS NULL) THEN '{}'::json WHEN (octet_length((payload)::text) > most) THEN windlass._too_large(payload, most) ELSE payload END;


--
-- Name: _follow_clock(text, timestamp with time zone, double precision, interval, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._follow_clock(_machine text, _zero_at timestamp with time zone, _since double precision, _by interval, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  now_here timestamptz := coalesce(_now, clock_timestamp());
BEGIN
  PERFORM "windlass"._move_leases(_by, _now);
  INSERT INTO "windlass"._clocks AS c (machine, zero_at, since, noted_at)
  VALUES (_machine, _zero_at, _since, now_here)
  ON CONFLICT (machine) DO UPDATE SET
    zero_at = excluded.zero_at, since = excluded.since, noted_at = excluded.noted_at;
  DELETE FROM "windlass"._clocks AS c
  WHERE c.machine <> _machine AND c.noted_at < now_here - interval '30 days';
END $$;


--
-- Name: _schedules; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._schedules (
    identifier text NOT NULL,
    schedule json NOT NULL,
    known_since timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    floor_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone,
    paused_at timestamp with time zone
);


--
-- Name: _forget_schedule(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._forget_schedule(_identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM "windlass"._schedules AS s WHERE s.identifier = _identifier RETURNING s.*
$$;


--
-- Name: _listed(text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._listed(flags text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (array_ndims(flags) = 1) THEN array_remove(flags, NULL::text) ELSE NULL::text[] END;


--
-- Name: _micros(timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._micros(instant timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((EXTRACT(epoch FROM windlass._finite(instant)) * (1000000)::numeric))::bigint;


--
-- Name: _history_row(windlass._history); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._history_row(h windlass._history) RETURNS json
    LANGUAGE sql STABLE
    RETURN json_build_array((h).id, (h).task, ((h).payload)::text, 'completed', (h).priority, windlass._micros((h).run_at), (h).attempts, (h).deliveries, (h).max_attempts, (h).key, (h).queue, windlass._listed((h).flags), (h).revision, (h).resets, 0, 0, 0, NULL::text, NULL::bigint, NULL::bigint, windlass._span((h).keep), (h).last_error, ((h).output)::text, ((h).progress)::text, ((h).log)::text, windlass._micros((h).created_at), windlass._micros((h).finished_at), windlass._micros((h).finished_at), windlass._micros((h).expires_at));


--
-- Name: _introduce(text, text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._introduce(_worker text, _tasks text[]) RETURNS boolean
    LANGUAGE sql
    BEGIN ATOMIC
 UPDATE windlass._workers w SET tasks = _introduce._tasks
   WHERE ((w.name = _introduce._worker) AND (w.tasks IS DISTINCT FROM _introduce._tasks));
 SELECT (EXISTS ( SELECT
            FROM windlass._workers w
           WHERE (w.name = _introduce._worker))) AS "exists";
END;


--
-- Name: _batches; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._batches (
    base bigint NOT NULL,
    worker bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    ids int8multirange NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='1', toast.autovacuum_vacuum_scale_factor='0.0', toast.autovacuum_vacuum_threshold='2000');


--
-- Name: _is_held(windlass._jobs, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_held(j windlass._jobs, _token bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((((j).state = 'running'::windlass._job_state) AND ((j).token = _token)) OR (((j).state = 'ready'::windlass._job_state) AND ((j).deliveries = 0) AND (EXISTS (SELECT FROM windlass._batches b WHERE (b.base = (_is_held._token - (_is_held.j).id))))));


--
-- Name: _is_simple(windlass._jobs); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_simple(j windlass._jobs) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((j).key IS NULL) AND ((j).queue IS NULL) AND ((j).keep IS NULL));


--
-- Name: _is_open(windlass._jobs, int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_open(j windlass._jobs, held int8multirange) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((j).state = ANY (ARRAY['scheduled'::windlass._job_state, 'waiting'::windlass._job_state, 'ready'::windlass._job_state, 'failed'::windlass._job_state])) AND ((held IS NULL) OR (windlass._is_simple(j) AND (((j).state <> 'ready'::windlass._job_state) OR ((j).deliveries > 0) OR (NOT (held @> (j).id))))));


--
-- Name: _joined(json, json); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._joined(old json, new json) RETURNS json
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN ((json_typeof(old) <> 'array'::text) OR (json_typeof(new) <> 'array'::text)) THEN new WHEN (json_array_length(old) = 0) THEN new WHEN (json_array_length(new) = 0) THEN old ELSE ((("left"(rtrim((old)::text, ' 	

'::text), '-1'::integer) || ','::text) || substr(ltrim((new)::text, ' 	

'::text), 2)))::json END;


--
-- Name: _know(json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._know(_schedules json, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  INSERT INTO "windlass"._schedules AS s (identifier, schedule, known_since, seen_at, floor_at)
  SELECT x.pair ->> 0, (x.pair ->> 1)::json, at, at, at
  FROM json_array_elements(_schedules) AS x (pair) ORDER BY x.pair ->> 0
  ON CONFLICT (identifier) DO UPDATE SET schedule = excluded.schedule, seen_at = excluded.seen_at;
  RETURN (SELECT json_agg("windlass"._schedule_row(s))::text FROM "windlass"._schedules AS s
          WHERE s.identifier IN (SELECT x.pair ->> 0 FROM json_array_elements(_schedules) AS x (pair)));
END $$;


--
-- Name: _largest(); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._largest() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN COALESCE((NULLIF(current_setting('windlass.max_payload'::text, true), ''::text))::bigint, (262144)::bigint);


--
-- Name: _quick_micros(timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._quick_micros(instant timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((date_part('epoch'::text, windlass._finite(instant)) * (1000000)::double precision))::bigint;


--
-- Name: _lease(windlass._jobs, bigint, integer, json); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._lease(j windlass._jobs, base bigint, more integer, worker json) RETURNS text
    LANGUAGE sql STABLE
    RETURN concat_ws(','::text, ('['::text || (j).id), (base + (j).id), worker, to_json((j).task), to_json(((j).payload)::text), ((j).attempts + more), ((j).deliveries + more), COALESCE(((j).max_attempts)::text, 'null'::text), (j).priority, windlass._quick_micros((j).run_at), COALESCE((to_json((j).key))::text, 'null'::text), COALESCE((to_json((j).queue))::text, 'null'::text), COALESCE((to_json(windlass._listed((j).flags)))::text, 'null'::text), (j).revision, (j).resets, ((j).suspect)::text, COALESCE((windlass._span((j).keep))::text, 'null'::text), windlass._quick_micros((j).created_at), windlass._quick_micros((j).updated_at), (COALESCE((to_json((j).last_error))::text, 'null'::text) || ']'::text));


--
-- Name: _look_again(bigint[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._look_again(_ids bigint[], _bases bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  unseen int8multirange;
BEGIN
  SELECT range_agg(r.span) INTO unseen
  FROM "windlass"._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
  WHERE b.base <> ALL (_bases);
  IF unseen IS NOT NULL AND EXISTS (SELECT FROM unnest(_ids) AS i WHERE unseen @> i) THEN
    RAISE EXCEPTION 'Some of these jobs were claimed meanwhile' USING ERRCODE = 'WLBAT';
  END IF;
END $$;


--
-- Name: _make_ready(tid[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._make_ready(_heads tid[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
BEGIN
  WITH made AS (
    UPDATE "windlass"._jobs AS j SET state = 'ready'
    WHERE j.ctid = ANY (_heads) AND j.state = 'waiting' RETURNING j.id
  )
  SELECT coalesce(array_agg(m.id), '{}') INTO ids FROM made AS m;
  RETURN ids;
END $$;


--
-- Name: _move_leases(interval, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._move_leases(_by interval, _now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE "windlass"._workers AS w SET expires_at = least(
    m.last_end, w.expires_at + CASE
      WHEN _by > interval '0' OR w.expires_at > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT v.id, coalesce(_now, clock_timestamp()) + make_interval(secs => v.lease) AS last_end
    FROM "windlass"._workers AS v ORDER BY v.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE w.id = m.id;
  UPDATE "windlass"._jobs AS j SET lease_until = least(
    m.last_end, j.lease_until + CASE
      WHEN _by > interval '0' OR j.lease_until > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT k.id, coalesce(_now, clock_timestamp()) + make_interval(secs => k.lease) AS last_end
    FROM "windlass"._jobs AS k WHERE k.state = 'running' AND k.lease_until IS NOT NULL
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE j.id = m.id;
END $$;


--
-- Name: _need_read_committed(); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._need_read_committed() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'Jobs cannot be claimed or changed in a % transaction',
      upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'WLISO', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
END $$;


--
-- Name: _next_due(bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._next_due(_after bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT due double precision, OUT place bigint[], OUT entries bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  before bigint := pg_stat_get_xact_tuples_returned('"windlass"._jobs_scheduled'::regclass);
BEGIN
  SELECT extract(epoch FROM j.run_at - coalesce(_now, statement_timestamp()))::float8,
    ARRAY["windlass"._micros(j.run_at), j.id]
  INTO due, place FROM "windlass"._jobs AS j
  WHERE j.state = 'scheduled'
    AND (j.run_at, j.id) > (
      timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
  ORDER BY j.run_at, j.id LIMIT 1;
  entries := pg_stat_get_xact_tuples_returned('"windlass"._jobs_scheduled'::regclass) - before;
END $$;


--
-- Name: _note(bigint, bigint, json, json, integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._note(_id bigint, _token bigint, _progress json, _entry json, _most integer, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  j "windlass"._jobs;
BEGIN
  PERFORM "windlass"._unbatch_held(ARRAY[_id], ARRAY[_token]);
  SELECT k.* INTO j FROM "windlass"._jobs AS k
  WHERE k.id = _id AND k.token = _token AND k.state = 'running' FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN "windlass"._refusal(_id, _token);
  END IF;
  UPDATE "windlass"._jobs AS k SET
    progress = coalesce(_progress, k.progress),
    log = CASE WHEN _entry IS NULL THEN k.log ELSE (
      SELECT json_agg(e.entry ORDER BY e.place) FROM (
        SELECT x.entry, x.place FROM (
          SELECT l.entry, l.place FROM json_array_elements(k.log) WITH ORDINALITY
            AS l (entry, place)
          UNION ALL SELECT _entry, 1000000000
        ) AS x ORDER BY x.place DESC LIMIT _most
      ) AS e
    ) END,
    updated_at = coalesce(_now, statement_timestamp())
  WHERE k.id = _id;
  RETURN 'applied';
END $$;


--
-- Name: _pause(text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pause(_kind text, _name text) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  -- Whoever waits for a row must not keep the latch from everybody.
  PERFORM FROM "windlass"._jobs AS j
  WHERE _kind = 'queue' AND j.queue = _name AND j.queue IS NOT NULL AND j.state = 'ready'
  FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock('5999473032045165895'::bigint);
  INSERT INTO "windlass"._paused (kind, name) VALUES (_kind, _name) ON CONFLICT DO NOTHING;
  IF _kind = 'queue' THEN
    UPDATE "windlass"._jobs AS j SET state = 'waiting'
    WHERE j.queue = _name AND j.queue IS NOT NULL AND j.state = 'ready';
  END IF;
END $$;


--
-- Name: _pause_schedule(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pause_schedule(_identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE "windlass"._schedules AS s
  SET paused_at = coalesce(s.paused_at, _now, statement_timestamp())
  WHERE s.identifier = _identifier RETURNING s.*
$$;


--
-- Name: _pick(text[], integer, integer, text[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick(_tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], OUT picked tid[], OUT spare bigint, OUT spans integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  bases bigint[];
  held int8multirange;
BEGIN
  picked := '{}';
  spare := 0;
  spans := 0;
  IF cardinality(_tasks) = 0 OR _limit <= 0 THEN
    RETURN;
  END IF;
  bases := ARRAY(SELECT b.base FROM "windlass"._batches AS b);
  -- To pass by a row that another claim has locked costs many times what one of its batch does: so
  -- where there are batches, claims that may take another one take turns. But nobody waits long.
  IF _limit >= 500 AND bases <> '{}' THEN
    FOR attempt IN 1 .. 10 LOOP
      EXIT WHEN pg_try_advisory_xact_lock('8300016935918158657'::bigint);
      PERFORM pg_sleep(0.001);
    END LOOP;
    bases := ARRAY(SELECT b.base FROM "windlass"._batches AS b);
  END IF;
  LOOP
    held := '{}';
    IF bases <> '{}' THEN
      SELECT coalesce(range_agg(r.span), '{}'), count(*) INTO held, spans
      FROM "windlass"._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
      WHERE b.base = ANY (bases);
    END IF;
    spare := cardinality(_tasks);  -- each branch reads one job ahead
    CASE
      WHEN cardinality(_tasks) = 1 THEN
        picked := "windlass"._pick_1(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 4 THEN
        picked := "windlass"._pick_4(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 16 THEN
        picked := "windlass"._pick_16(_tasks, _limit, _suspects, _forbidden, _marks, held);
      ELSE
        SELECT m.picked, m.spare INTO picked, spare
        FROM "windlass"._pick_many(_tasks, _limit, _suspects, _forbidden, _marks, held) AS m;
    END CASE;
    -- A batch that was written in the meantime may have some of these: pick again, without them.
    EXIT WHEN picked = '{}' OR NOT EXISTS (
      SELECT FROM "windlass"._batches AS b
      WHERE b.base <> ALL (bases)
        AND b.ids && "windlass"._spans(
          ARRAY(SELECT j.id FROM "windlass"._jobs AS j WHERE j.ctid = ANY (picked)))
    );
    bases := ARRAY(SELECT b.base FROM "windlass"._batches AS b);
  END LOOP;
END $$;


--
-- Name: _pick_1(text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_1(_tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _held int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
      BEGIN
        RETURN ARRAY(
          SELECT l.tid FROM (
            SELECT u.* FROM (
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[1]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[1][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
           coalesce(_marks[1][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL
              (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
               WHERE j.state = 'ready' AND j.suspect AND j.task = ANY (_tasks)
                 AND (j.flags && _forbidden) IS NOT TRUE
               ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
            ) AS u ORDER BY u.priority, u.run_at, u.id
          ) AS c
          CROSS JOIN LATERAL (
            SELECT r.ctid AS tid FROM "windlass"._jobs AS r
            WHERE r.ctid = c.tid AND r.state = 'ready'
              AND (r.deliveries > 0 OR NOT _held @> r.id)
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS l
          LIMIT _limit
        );
      END $$;


--
-- Name: _pick_16(text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_16(_tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _held int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
      BEGIN
        RETURN ARRAY(
          SELECT l.tid FROM (
            SELECT u.* FROM (
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[1]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[1][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
           coalesce(_marks[1][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[2]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[2][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
           coalesce(_marks[2][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[3]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[3][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
           coalesce(_marks[3][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[4]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[4][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
           coalesce(_marks[4][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[5]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[5][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
           coalesce(_marks[5][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[6]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[6][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
           coalesce(_marks[6][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[7]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[7][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
           coalesce(_marks[7][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[8]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[8][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
           coalesce(_marks[8][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[9]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[9][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
           coalesce(_marks[9][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[10]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[10][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
           coalesce(_marks[10][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[11]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[11][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
           coalesce(_marks[11][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[12]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[12][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
           coalesce(_marks[12][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[13]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[13][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
           coalesce(_marks[13][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[14]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[14][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
           coalesce(_marks[14][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[15]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[15][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
           coalesce(_marks[15][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[16]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[16][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
           coalesce(_marks[16][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL
              (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
               WHERE j.state = 'ready' AND j.suspect AND j.task = ANY (_tasks)
                 AND (j.flags && _forbidden) IS NOT TRUE
               ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
            ) AS u ORDER BY u.priority, u.run_at, u.id
          ) AS c
          CROSS JOIN LATERAL (
            SELECT r.ctid AS tid FROM "windlass"._jobs AS r
            WHERE r.ctid = c.tid AND r.state = 'ready'
              AND (r.deliveries > 0 OR NOT _held @> r.id)
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS l
          LIMIT _limit
        );
      END $$;


--
-- Name: _pick_4(text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_4(_tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _held int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
      BEGIN
        RETURN ARRAY(
          SELECT l.tid FROM (
            SELECT u.* FROM (
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[1]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[1][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
           coalesce(_marks[1][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[2]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[2][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
           coalesce(_marks[2][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[3]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[3][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
           coalesce(_marks[3][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL 
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[4]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[4][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
           coalesce(_marks[4][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id) UNION ALL
              (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
               WHERE j.state = 'ready' AND j.suspect AND j.task = ANY (_tasks)
                 AND (j.flags && _forbidden) IS NOT TRUE
               ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
            ) AS u ORDER BY u.priority, u.run_at, u.id
          ) AS c
          CROSS JOIN LATERAL (
            SELECT r.ctid AS tid FROM "windlass"._jobs AS r
            WHERE r.ctid = c.tid AND r.state = 'ready'
              AND (r.deliveries > 0 OR NOT _held @> r.id)
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS l
          LIMIT _limit
        );
      END $$;


--
-- Name: _pick_many(text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_many(_tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _held int8multirange, OUT picked tid[], OUT spare bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  names text[];
  marks bigint[];
  wanted integer;
  each integer;
  best tid[];
  last bigint[];
  after bigint[];
  is_short boolean;
  read bigint;
  suspects integer;
  found_names text[];
  found_marks bigint[];
BEGIN
  picked := '{}';
  spare := 0;
  LOOP
    names := _tasks;
    marks := _marks;
    wanted := _limit - cardinality(picked);
    each := 1;
    last := NULL;
    LOOP
      WITH start AS (
        SELECT t.name,
          coalesce(marks[t.n][1], -2147483649) AS priority, coalesce(marks[t.n][2], 0) AS micros,
          coalesce(marks[t.n][3], 0) AS id
        FROM unnest(names) WITH ORDINALITY AS t (name, n)
      ),
      read AS MATERIALIZED (
        SELECT s.name, ARRAY[s.priority, s.micros, s.id] AS mark, r.*
        FROM start AS s CROSS JOIN LATERAL (
          SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
          WHERE j.state = 'ready' AND NOT j.suspect AND j.task = s.name
            AND (j.priority, j.run_at, j.id) > (
              s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
            AND (j.priority, j.run_at, j.id) <= (
              coalesce(last[1], 2147483648),
              timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
              coalesce(last[3], 0))
            AND (j.deliveries > 0 OR NOT _held @> j.id)
            AND (j.flags && _forbidden) IS NOT TRUE
          ORDER BY j.priority, j.run_at, j.id LIMIT each
        ) AS r
      ),
      best_of AS MATERIALIZED (
        SELECT u.* FROM (
          SELECT r.* FROM read AS r
          UNION ALL
          (SELECT NULL, NULL, j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND j.suspect
             AND (j.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS TRUE
             AND (after IS NULL OR (j.priority, j.run_at, j.id) > (
               after[1], timestamptz 'epoch' + after[2] * interval '1 microsecond', after[3]))
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
        ) AS u ORDER BY u.priority, u.run_at, u.id LIMIT wanted
      )
      SELECT
        ARRAY(SELECT b.tid FROM best_of AS b),
        (SELECT ARRAY[b.priority, "windlass"._micros(b.run_at), b.id] FROM best_of AS b
         OFFSET wanted - 1),
        EXISTS (SELECT FROM best_of AS b WHERE b.name IS NOT NULL
                GROUP BY b.name HAVING count(*) = each),
        (SELECT count(*) FROM read),
        (SELECT count(*) FROM best_of AS b WHERE b.name IS NULL),
        CASE WHEN each = 1 THEN ARRAY(SELECT b.name FROM best_of AS b WHERE b.name IS NOT NULL) END,
        CASE WHEN each = 1 THEN ARRAY(SELECT b.mark FROM best_of AS b WHERE b.name IS NOT NULL) END
      INTO best, last, is_short, read, suspects, found_names, found_marks;
      spare := spare + read;
      EXIT WHEN NOT is_short;
      IF each = 1 THEN
        names := found_names;
        marks := found_marks;
      END IF;
      each := greatest(4 * each, 5 * wanted / (4 * cardinality(names)));
    END LOOP;
    picked := picked || ARRAY(
      SELECT l.tid FROM unnest(best) AS b (tid)
      CROSS JOIN LATERAL (
        SELECT r.ctid AS tid FROM "windlass"._jobs AS r
        WHERE r.ctid = b.tid AND r.state = 'ready' AND (r.deliveries > 0 OR NOT _held @> r.id)
        FOR NO KEY UPDATE SKIP LOCKED
      ) AS l
    );
    EXIT WHEN last IS NULL OR cardinality(picked) >= _limit;
    after := last;
    _suspects := _suspects - suspects;
    _marks := ARRAY(
      SELECT greatest(after, ARRAY[
        coalesce(_marks[n][1], -2147483649), coalesce(_marks[n][2], 0), coalesce(_marks[n][3], 0)
      ]) FROM generate_series(1, cardinality(_tasks)) AS n
    );
  END LOOP;
  spare := spare - cardinality(picked);
END $$;


--
-- Name: _plain(text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._plain(flags text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN NULLIF(ARRAY(SELECT f.flag FROM unnest(_plain.flags) WITH ORDINALITY f(flag, place) WHERE (f.flag IS NOT NULL) ORDER BY f.place), '{}'::text[]);


--
-- Name: _promote(integer, bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._promote(_limit integer, _after bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT count integer, OUT reached bigint[], OUT entries bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  before bigint := pg_stat_get_xact_tuples_returned('"windlass"._jobs_scheduled'::regclass);
  queues text[];
BEGIN
  WITH due AS MATERIALIZED (
    SELECT j.ctid AS tid FROM "windlass"._jobs AS j
    WHERE j.state = 'scheduled' AND j.run_at <= at
      AND (j.run_at, j.id) > (
        timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
    ORDER BY j.run_at, j.id LIMIT _limit FOR NO KEY UPDATE SKIP LOCKED
  ),
  made AS (
    UPDATE "windlass"._jobs AS j SET state = "windlass"._due_state(j.run_at, j.queue, at) FROM due
    WHERE j.ctid = due.tid AND j.state = 'scheduled' RETURNING j.queue, j.run_at, j.id
  )
  SELECT count(*), array_agg(DISTINCT m.queue) FILTER (WHERE m.queue IS NOT NULL),
    (SELECT ARRAY["windlass"._micros(l.run_at), l.id] FROM made AS l
     ORDER BY l.run_at DESC, l.id DESC LIMIT 1)
  INTO count, queues, reached FROM made AS m;
  IF count < _limit THEN
    reached := ARRAY["windlass"._micros(at), 9223372036854775807];
  END IF;
  entries := pg_stat_get_xact_tuples_returned('"windlass"._jobs_scheduled'::regclass) - before;
  IF queues IS NOT NULL THEN
    INSERT INTO "windlass"._bells (queue) SELECT q FROM unnest(queues) AS q;
  END IF;
  IF count > 0 THEN
    PERFORM pg_notify('windlass:jobs', '');
  END IF;
END $$;


--
-- Name: _prune(integer, double precision, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._prune(_limit integer, _cancelled_kept double precision, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  kept integer;
  cancelled integer;
BEGIN
  DELETE FROM "windlass"._history AS h WHERE h.ctid = ANY (ARRAY(
    SELECT o.ctid FROM "windlass"._history AS o WHERE o.expires_at <= at
    ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS kept = ROW_COUNT;
  DELETE FROM "windlass"._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM "windlass"._jobs AS o
    WHERE o.state = 'cancelled' AND o.finished_at <= at - make_interval(secs => _cancelled_kept)
    ORDER BY o.finished_at LIMIT _limit - kept FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS cancelled = ROW_COUNT;
  RETURN kept + cancelled;
END $$;


--
-- Name: _public(windlass._jobs, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._public(j windlass._jobs, worker text) RETURNS windlass.job
    LANGUAGE sql STABLE
    RETURN ROW((j).id, (j).queue, (j).task, (j).priority, (j).run_at, CASE WHEN ((j).superseded OR ((j).state = 'failed'::windlass._job_state)) THEN GREATEST((j).attempts, COALESCE((j).max_attempts, 25)) ELSE (j).attempts END, COALESCE((j).max_attempts, 25), (j).last_error, (j).created_at, (j).updated_at, (j).key, (j).claimed_at, worker, (j).revision, (j).flags, (j).payload, CASE (j).state WHEN 'ready'::windlass._job_state THEN 'ready'::text WHEN 'waiting'::windlass._job_state THEN 'ready'::text WHEN 'failed'::windlass._job_state THEN 'failed'::text WHEN 'scheduled'::windlass._job_state THEN 'scheduled'::text WHEN 'completed'::windlass._job_state THEN 'completed'::text ELSE ((j).state)::text END)::windlass.job;


--
-- Name: _put_back(bigint[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._put_back(_heads bigint[], _candidates bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  swap record;
BEGIN
  FOR swap IN
    SELECT x.head, x.candidate FROM unnest(_heads, _candidates) AS x (head, candidate)
    JOIN "windlass"._jobs AS j ON j.id = x.candidate AND j.state = 'ready'
  LOOP
    UPDATE "windlass"._jobs AS j SET state = 'waiting' WHERE j.id = swap.candidate;
    UPDATE "windlass"._jobs AS j SET state = 'ready' WHERE j.id = swap.head;
  END LOOP;
END $$;


--
-- Name: _reap(integer, integer, boolean, timestamp with time zone, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._reap(_limit integer, _max_resets integer, _orphans boolean, _reckoned timestamp with time zone, _since timestamp with time zone, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT requeued bigint[], OUT ended bigint[], OUT at_micros bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  passed timestamptz := least(at, _reckoned);
  dead bigint[];
  doomed bigint[];
BEGIN
  at_micros := "windlass"._micros(at);
  -- No worker gives a sign of life in the future: the clock was set back. A reaper that has watched
  -- it will tell by how much.
  IF at > _reckoned - interval '250 ms' AND EXISTS (
    SELECT FROM "windlass"._workers AS w
    WHERE w.expires_at > coalesce(_now, clock_timestamp()) + make_interval(secs => w.lease)
  ) THEN
    PERFORM "windlass"._move_leases(interval '0', _now);
  END IF;
  SELECT coalesce(array_agg(w.id), '{}') INTO dead FROM (
    SELECT v.id FROM "windlass"._workers AS v
    WHERE greatest(v.expires_at, _since + make_interval(secs => v.lease)) <= passed
    ORDER BY v.id FOR UPDATE SKIP LOCKED
  ) AS w;
  IF _orphans THEN
    WITH RECURSIVE holder (id) AS (
      SELECT (SELECT j.worker FROM "windlass"._jobs AS j WHERE j.state = 'running'
              ORDER BY j.worker LIMIT 1)
      UNION ALL
      SELECT (SELECT j.worker FROM "windlass"._jobs AS j
              WHERE j.state = 'running' AND j.worker > h.id ORDER BY j.worker LIMIT 1)
      FROM holder AS h WHERE h.id IS NOT NULL
    )
    SELECT dead || coalesce(array_agg(h.id), '{}') INTO dead FROM holder AS h
    WHERE h.id IS NOT NULL
      AND NOT EXISTS (SELECT FROM "windlass"._workers AS w WHERE w.id = h.id);
    SELECT dead || coalesce(array_agg(b.worker), '{}') INTO dead FROM "windlass"._batches AS b
    WHERE NOT EXISTS (SELECT FROM "windlass"._workers AS w WHERE w.id = b.worker);
  END IF;
  IF dead = '{}' THEN
    requeued := '{}';
    ended := '{}';
    RETURN;
  END IF;
  PERFORM "windlass"._spread(ARRAY(
    SELECT b.base FROM "windlass"._batches AS b WHERE b.worker = ANY (dead)
  ));
  UPDATE "windlass"._jobs AS j SET lease_until = at + make_interval(secs => j.lease)
  WHERE j.id = ANY (ARRAY(
    SELECT k.id FROM "windlass"._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (dead)
      AND k.lease_until > at + make_interval(secs => k.lease)
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT j.id FROM "windlass"._jobs AS j
    WHERE j.state = 'running' AND j.worker = ANY (dead) AND (
      j.lease_until IS NULL
      OR greatest(j.lease_until, _since + make_interval(secs => j.lease)) <= passed
    )
    ORDER BY j.id LIMIT _limit FOR UPDATE SKIP LOCKED
  ) AS r;
  SELECT
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NULL), '{}'),
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NOT NULL), '{}')
  INTO requeued, ended
  FROM "windlass"._take_back(doomed, _max_resets, at) AS t;
  DELETE FROM "windlass"._workers AS w
  WHERE w.id = ANY (dead) AND NOT EXISTS (
    SELECT FROM "windlass"._jobs AS j WHERE j.state = 'running' AND j.worker = w.id
  ) AND NOT EXISTS (SELECT FROM "windlass"._batches AS b WHERE b.worker = w.id);
END $$;


--
-- Name: _refusal(bigint, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._refusal(_id bigint, _token bigint) RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT COALESCE(( SELECT
                 CASE
                     WHEN windlass._is_held(j.*, _refusal._token) THEN 'busy'::text
                     ELSE 'lost'::text
                 END AS "case"
            FROM windlass._jobs j
           WHERE (j.id = _refusal._id)), ( SELECT 'lost'::text
            FROM windlass._history h
           WHERE (h.id = _refusal._id)), 'missing'::text) AS "coalesce";
END;


--
-- Name: _remove_job(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._remove_job(_key text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  j "windlass"._jobs;
BEGIN
  SELECT k.* INTO j FROM "windlass"._jobs AS k
  WHERE k.key = _key AND k.state <> 'cancelled' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF j.state = 'running' THEN
    UPDATE "windlass"._jobs AS k SET
      key = NULL, superseded = true, updated_at = coalesce(_now, statement_timestamp())
    WHERE k.id = j.id RETURNING k.* INTO j;
  ELSE
    DELETE FROM "windlass"._jobs AS k WHERE k.id = j.id;
    IF j.state = 'ready' AND j.queue IS NOT NULL THEN
      INSERT INTO "windlass"._bells (queue) VALUES (j.queue);
      PERFORM pg_notify('windlass:jobs', '');
    END IF;
  END IF;
  RETURN NEXT j;
END $$;


--
-- Name: _renew(text, double precision, bigint[], bigint[], json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._renew(_worker text, _lease double precision, _ids bigint[], _tokens bigint[], _extend json, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  wish record;
BEGIN
  number := "windlass"._beat(_worker, _lease, _now);
  -- Also those of which nothing is left, and which this worker has forgotten.
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM "windlass"._spread(ARRAY(
      SELECT b.base FROM "windlass"._batches AS b
      WHERE b.worker = number AND b.claimed_at < at - interval '1 s'
    ));
  END IF;
  PERFORM "windlass"._unbatch_held(
    array_agg((e ->> 0)::bigint), array_agg((e ->> 1)::bigint)
  ) FROM json_array_elements(_extend) AS e HAVING count(*) > 0;
  FOR wish IN
    SELECT (e ->> 0)::bigint AS job, (e ->> 1)::bigint AS token, (e ->> 2)::float8 AS lease,
      at + make_interval(secs => (e ->> 2)::float8) AS until
    FROM json_array_elements(_extend) AS e
  LOOP
    UPDATE "windlass"._jobs AS j SET
      lease_until = greatest(
        wish.until, least(j.lease_until, at + make_interval(secs => j.lease))
      ),
      lease = greatest(wish.lease, j.lease)
    WHERE j.id = (
      SELECT k.id FROM "windlass"._jobs AS k
      WHERE k.id = wish.job AND k.token = wish.token AND k.state = 'running'
      FOR NO KEY UPDATE SKIP LOCKED
    );
    IF NOT FOUND AND "windlass"._refusal(wish.job, wish.token) = 'busy' THEN
      id := wish.job;
      answer := 'locked';
      RETURN NEXT;
    END IF;
  END LOOP;
  RETURN QUERY SELECT * FROM "windlass"._check(_ids, _tokens, _now);
END $$;


--
-- Name: _reschedule_jobs(bigint[], timestamp with time zone, integer, integer, integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._reschedule_jobs(_ids bigint[], _run_at timestamp with time zone, _priority integer, _attempts integer, _max_attempts integer, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM "windlass"._change(
      _ids, ROW('reschedule', NULL, _run_at, _priority, _attempts, _max_attempts)::"windlass"._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids);
END $$;


--
-- Name: _resume(text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._resume(_kind text, _name text) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('5999473032045165895'::bigint);
  DELETE FROM "windlass"._paused AS p WHERE p.kind = _kind AND p.name = _name;
  IF _kind = 'queue' THEN
    INSERT INTO "windlass"._bells (queue) VALUES (_name);
  END IF;
  PERFORM pg_notify('windlass:jobs', '');
END $$;


--
-- Name: _resume_schedule(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._resume_schedule(_identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE "windlass"._schedules AS s SET
    floor_at = CASE WHEN s.paused_at IS NULL THEN s.floor_at
      ELSE greatest(s.floor_at, coalesce(_now, clock_timestamp())) END,
    paused_at = NULL
  WHERE s.identifier = _identifier RETURNING s.*
$$;


--
-- Name: _retire(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._retire(_worker text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '5s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  j "windlass"._jobs;
  release "windlass"._outcome;
BEGIN
  SELECT w.id INTO number FROM "windlass"._workers AS w WHERE w.name = _worker FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM "windlass"._spread(ARRAY(
    SELECT b.base FROM "windlass"._batches AS b WHERE b.worker = number
  ));
  release.kind := 'release';
  FOR j IN
    SELECT k.* FROM "windlass"._jobs AS k
    WHERE k.state = 'running' AND k.worker = number ORDER BY k.id FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM "windlass"._end(j, release, at);
  END LOOP;
  IF EXISTS (SELECT FROM "windlass"._jobs AS k WHERE k.state = 'running' AND k.worker = number)
    OR EXISTS (SELECT FROM "windlass"._batches AS b WHERE b.worker = number)
  THEN
    UPDATE "windlass"._workers AS w SET expires_at = at, lease = 0 WHERE w.id = number;
  ELSE
    DELETE FROM "windlass"._workers AS w WHERE w.id = number;
  END IF;
  -- Its queues may have waiting jobs, and it will not look after them any more.
  PERFORM pg_notify('windlass:jobs', '');
END $$;


--
-- Name: _retry_jobs(bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._retry_jobs(_ids bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j "windlass"._jobs;
BEGIN
  FOR j IN
    SELECT k.* FROM "windlass"._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'failed', 'cancelled')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  LOOP
    BEGIN
      UPDATE "windlass"._jobs AS k SET
        attempts = 0, resets = 0, suspect = false, finished_at = NULL, run_at = at,
        updated_at = at, state = "windlass"._due_state(at, k.queue, at)
      WHERE k.id = j.id RETURNING k.* INTO j;
    EXCEPTION WHEN unique_violation THEN
      CONTINUE;
    END;
    IF j.queue IS NOT NULL THEN
      INSERT INTO "windlass"._bells (queue) VALUES (j.queue);
    END IF;
    PERFORM pg_notify('windlass:jobs', '');
    RETURN NEXT j;
  END LOOP;
END $$;


--
-- Name: _row(windlass._jobs, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._row(j windlass._jobs, worker text) RETURNS json
    LANGUAGE sql STABLE
    RETURN json_build_array((j).id, (j).task, ((j).payload)::text, CASE (j).state WHEN 'waiting'::windlass._job_state THEN 'ready'::text ELSE ((j).state)::text END, (j).priority, windlass._micros((j).run_at), (j).attempts, (j).deliveries, (j).max_attempts, (j).key, (j).queue, windlass._listed((j).flags), (j).revision, (j).resets, ((j).suspect)::integer, ((j).superseded)::integer, ((j).cancel_requested)::integer, worker, (j).token, windlass._micros((j).lease_until), windlass._span((j).keep), (j).last_error, NULL::text, ((j).progress)::text, ((j).log)::text, windlass._micros((j).created_at), windlass._micros((j).updated_at), windlass._micros((j).finished_at), NULL::bigint);


--
-- Name: _schedule_row(windlass._schedules); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._schedule_row(s windlass._schedules) RETURNS json
    LANGUAGE sql STABLE
    RETURN json_build_array(((s).schedule)::text, windlass._micros((s).known_since), windlass._micros((s).seen_at), windlass._micros((s).floor_at), windlass._micros((s).last_at), windlass._micros((s).paused_at));


--
-- Name: _seen(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._seen(_ids bigint[], OUT bases bigint[], OUT held int8multirange) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
    SELECT FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids) AND NOT "windlass"._is_simple(k)
  ) THEN
    SELECT coalesce(array_agg(DISTINCT b.base), '{}'), coalesce(range_agg(r.span), '{}')
    INTO bases, held
    FROM "windlass"._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span);
  END IF;
END $$;


--
-- Name: _settle(bigint[], bigint[], json[], double precision[], text, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._settle(_ids bigint[], _tokens bigint[], _outputs json[], _keeps double precision[], _others text, _careful boolean, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET lock_timeout TO '20ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  -- A variable, so that no plan made while the table was small walks the index of running jobs
  -- once for each job.
  running "windlass"._job_state := 'running';
  ready "windlass"._job_state := 'ready';
  bases bigint[];
  held bigint[] := _ids;
  held_tokens bigint[] := _tokens;
  outputs json[] := _outputs;
  keeps float8[] := _keeps;
  gone bigint[] := '{}';
  queues text[];
  answers text[] := '{}';
  other record;
  j "windlass"._jobs;
BEGIN
  bases := ARRAY(
    SELECT b.base FROM "windlass"._batches AS b WHERE EXISTS (
      SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
    )
  );
  IF _careful THEN
    SELECT
      coalesce(array_agg(h.id), '{}'), coalesce(array_agg(h.token), '{}'),
      array_agg(h.output), array_agg(h.keep)
    INTO held, held_tokens, outputs, keeps FROM (
      SELECT x.id, x.token, x.output, x.keep
      FROM unnest(_ids, _tokens, _outputs, _keeps) AS x (id, token, output, keep)
      JOIN "windlass"._jobs AS k ON k.id = x.id AND (
        k.state = running AND k.token = x.token
        OR k.state = ready AND k.deliveries = 0 AND x.token - x.id = ANY (bases)
      )
      ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
    ) AS h;
  END IF;
  IF cardinality(held) > 0 AND _keeps IS NULL THEN
    WITH done AS (
      DELETE FROM "windlass"._jobs AS k USING unnest(held, held_tokens) AS x (id, token)
      WHERE k.id = x.id AND (
        k.state = running AND k.token = x.token
        OR k.state = ready AND k.deliveries = 0 AND x.token - x.id = ANY (bases)
      )
      RETURNING k.id, k.queue
    )
    SELECT coalesce(array_agg(d.id), '{}'), array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, queues FROM done AS d;
  ELSIF cardinality(held) > 0 THEN
    WITH done AS (
      DELETE FROM "windlass"._jobs AS k
      USING unnest(held, held_tokens, outputs, keeps) AS x (id, token, output, keep)
      WHERE k.id = x.id AND (
        k.state = running AND k.token = x.token
        OR k.state = ready AND k.deliveries = 0 AND x.token - x.id = ANY (bases)
      )
      RETURNING k.*, x.token AS held_token, x.output,
        coalesce("windlass"._span(k.keep), x.keep) AS kept,
        (k.state = ready)::integer AS more
    ),
    filed AS (
      INSERT INTO "windlass"._history
        (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts,
         deliveries, revision, resets, max_attempts, task, payload, key, queue, flags,
         last_error, output, progress, log, meta)
      SELECT
        d.id, d.run_at, d.created_at, at, at + make_interval(secs => d.kept), d.held_token, d.kept,
        d.priority, d.attempts + d.more, d.deliveries + d.more, d.revision, d.resets, d.max_attempts, d.task,
        d.payload, d.key, d.queue, d.flags, d.last_error, d.output, d.progress, d.log, d.meta
      FROM done AS d WHERE d.kept > 0
    )
    SELECT coalesce(array_agg(d.id), '{}'), array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, queues FROM done AS d;
  END IF;
  IF queues IS NOT NULL THEN
    INSERT INTO "windlass"._bells (queue) SELECT q FROM unnest(queues) AS q;
  END IF;
  IF _others IS NULL AND cardinality(gone) = cardinality(_ids) THEN
    RETURN NULL;
  END IF;
  answers := ARRAY(
    SELECT CASE WHEN x.id = ANY (gone) THEN 'completed' ELSE "windlass"._refusal(x.id, x.token) END
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS x (id, token, place) ORDER BY x.place
  );
  IF _others IS NOT NULL THEN
    PERFORM "windlass"._unbatch_held(array_agg(x.id), array_agg(x.token))
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint);
  END IF;
  FOR other IN
    SELECT x.id, x.token, json_populate_record(NULL::"windlass"._outcome, x.outcome) AS outcome
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint, outcome json)
  LOOP
    SELECT k.* INTO j FROM "windlass"._jobs AS k
    WHERE k.id = other.id AND k.token = other.token AND k.state = 'running'
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      answers := answers || "windlass"._end(j, other.outcome, at)::text;
    ELSE
      answers := answers || "windlass"._refusal(other.id, other.token);
    END IF;
  END LOOP;
  RETURN array_to_json(answers)::text;
END $$;


--
-- Name: _walked(json); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._walked(payload json) RETURNS json
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
END $_$;


--
-- Name: _sound(json); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._sound(payload json) RETURNS json
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (CASE WHEN (octet_length((payload)::text) < 25) THEN ((payload)::text ~ '\\u|[0-9][eE][+]?[0-9]{2}'::text) ELSE ((payload)::text ~ '\\u|[0-9][eE][+]?[0-9]{2}|[0-9]{25}'::text) END OR ((octet_length((payload)::text) > 128) AND ((((2 * octet_length((payload)::text)) - octet_length(replace((payload)::text, '['::text, ''::text))) - octet_length(replace((payload)::text, '{'::text, ''::text))) > 64))) THEN windlass._walked(payload) ELSE payload END;


--
-- Name: _spans(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._spans(_ids bigint[]) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT COALESCE(range_agg(int8range(i.i, i.i, '[]'::text)), '{}'::int8multirange) AS "coalesce" FROM unnest(_spans._ids) i(i));


--
-- Name: _spread(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._spread(_bases bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  bases bigint[];
BEGIN
  bases := ARRAY(
    SELECT b.base FROM "windlass"._batches AS b WHERE b.base = ANY (_bases)
    ORDER BY b.base FOR UPDATE SKIP LOCKED
  );
  IF bases = '{}' THEN
    RETURN;
  END IF;
  PERFORM "windlass"._take_out(ARRAY(
    SELECT k.id FROM "windlass"._jobs AS k
    WHERE k.id IN (SELECT b.id FROM "windlass"._in_batches AS b WHERE b.base = ANY (bases))
      AND k.state = 'ready' AND k.deliveries = 0
    ORDER BY k.id FOR NO KEY UPDATE OF k SKIP LOCKED
  ));
  DELETE FROM "windlass"._batches AS b WHERE b.base = ANY (bases) AND NOT EXISTS (
    SELECT FROM "windlass"._in_batches AS i JOIN "windlass"._jobs AS k ON k.id = i.id
    WHERE i.base = b.base AND k.state = 'ready' AND k.deliveries = 0
  );
END $$;


--
-- Name: _stranded(integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._stranded(_most integer, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  known text[];
  low text;
  high text;
  next text;
  found_tasks text[] := '{}';
BEGIN
  IF EXISTS (SELECT FROM "windlass"._workers AS w WHERE w.expires_at > at AND w.tasks IS NULL) THEN
    RETURN found_tasks;
  END IF;
  known := ARRAY(
    SELECT DISTINCT n.name FROM (
      SELECT unnest(w.tasks) AS name FROM "windlass"._workers AS w WHERE w.expires_at > at
      UNION ALL
      SELECT p.name FROM "windlass"._paused AS p WHERE p.kind = 'task'
    ) AS n ORDER BY n.name
  );
  low := '';
  FOREACH high IN ARRAY known || NULL::text LOOP
    LOOP
      IF high IS NULL THEN
        next := least(
          (SELECT j.task FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM "windlass"._jobs AS j
           WHERE j.state = 'waiting' AND j.task > low ORDER BY j.task LIMIT 1)
        );
      ELSE
        next := least(
          (SELECT j.task FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low AND j.task < high
           ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM "windlass"._jobs AS j
           WHERE j.state = 'waiting' AND j.task > low AND j.task < high
           ORDER BY j.task LIMIT 1)
        );
      END IF;
      EXIT WHEN next IS NULL OR cardinality(found_tasks) >= _most;
      found_tasks := found_tasks || next;
      low := next;
    END LOOP;
    low := high;
  END LOOP;
  RETURN ARRAY(
    SELECT unnest(found_tasks)
    UNION
    SELECT j.task FROM "windlass"._jobs AS j
    WHERE j.state = 'ready' AND j.suspect AND j.task <> ALL (known)
    LIMIT _most
  );
END $$;


--
-- Name: _take_back(bigint[], integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._take_back(_ids bigint[], _max_resets integer, _at timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  j "windlass"._jobs;
BEGIN
  FOR j IN
    UPDATE "windlass"._jobs AS k SET
      resets = k.resets + k.suspect::integer,
      attempts = k.attempts - 1,
      suspect = true,
      state = CASE
        WHEN k.superseded THEN 'failed'
        WHEN k.cancel_requested THEN 'cancelled'
        WHEN k.suspect AND k.resets + 1 >= _max_resets THEN 'failed'
        WHEN k.queue IS NULL THEN 'ready'
        ELSE 'waiting'
      END::"windlass"._job_state,
      last_error = CASE
        WHEN k.superseded THEN 'replaced or removed by its key while it ran, and did not complete'
        WHEN k.suspect AND k.resets + 1 >= _max_resets AND NOT k.cancel_requested
          THEN replace('its worker died {0} times while this job ran (max_resets); it will not run again', '{0}', (k.resets + 1)::text)
        ELSE k.last_error
      END,
      finished_at = CASE
        WHEN k.superseded OR k.cancel_requested OR (k.suspect AND k.resets + 1 >= _max_resets)
          THEN _at
      END,
      superseded = false, cancel_requested = false, updated_at = _at,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = ANY (_ids)
    RETURNING k.*
  LOOP
    IF j.queue IS NOT NULL THEN
      INSERT INTO "windlass"._bells (queue) VALUES (j.queue);
    END IF;
    PERFORM pg_notify('windlass:jobs', '');
    RETURN NEXT j;
  END LOOP;
END $$;


--
-- Name: _take_out(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._take_out(_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE "windlass"._jobs AS j SET
    state = 'running', token = b.base + j.id, worker = b.worker, claimed_at = b.claimed_at,
    attempts = j.attempts + 1, deliveries = 1
  FROM unnest(_ids) AS x (id) JOIN "windlass"._in_batches AS b ON b.id = x.id
  WHERE j.id = x.id AND j.state = 'ready' AND j.deliveries = 0;
END $$;


--
-- Name: _unbatch(bigint[], boolean); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._unbatch(_ids bigint[], _with_running boolean, OUT locked bigint[], OUT heads text[]) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  is_any boolean;
BEGIN
  SELECT
    coalesce(array_agg(l.id), '{}'),
    array_agg(l.queue) FILTER (WHERE l.state = 'ready' AND l.queue IS NOT NULL),
    bool_or(l.state = 'ready' AND l.deliveries = 0 AND l.key IS NULL AND l.queue IS NULL)
  INTO locked, heads, is_any FROM (
    SELECT k.id, k.state, k.deliveries, k.key, k.queue FROM "windlass"._jobs AS k
    WHERE k.id = ANY (_ids) AND (_with_running OR k.state <> 'running')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  ) AS l;
  IF is_any THEN
    PERFORM "windlass"._need_read_committed();
    PERFORM "windlass"._take_out(locked);
  END IF;
END $$;


--
-- Name: _unbatch_held(bigint[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._unbatch_held(_ids bigint[], _tokens bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF EXISTS (SELECT FROM "windlass"._batches) THEN
    PERFORM "windlass"._take_out(ARRAY(
      SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
      JOIN "windlass"._batches AS b ON b.base = x.token - x.id
      JOIN "windlass"._jobs AS k ON k.id = x.id AND k.state = 'ready' AND k.deliveries = 0
      ORDER BY k.id FOR NO KEY UPDATE OF k SKIP LOCKED
    ));
  END IF;
END $$;


--
-- Name: _unlock(text[], integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._unlock(_workers text[], _max_resets integer, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  numbers bigint[];
  doomed bigint[];
BEGIN
  SELECT array_agg(w.id) INTO numbers FROM (
    SELECT v.id FROM "windlass"._workers AS v WHERE v.name = ANY (_workers)
    ORDER BY v.id FOR UPDATE
  ) AS w;
  -- What somebody's transaction holds is waited for.
  PERFORM "windlass"._unbatch(ARRAY(
    SELECT k.id FROM "windlass"._jobs AS k WHERE k.state = 'running' AND k.worker = ANY (numbers)
    UNION ALL
    SELECT b.id FROM "windlass"._in_batches AS b WHERE b.worker = ANY (numbers)
  ), true);
  PERFORM "windlass"._spread(ARRAY(
    SELECT b.base FROM "windlass"._batches AS b WHERE b.worker = ANY (numbers)
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT k.id FROM "windlass"._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (numbers) ORDER BY k.id FOR UPDATE
  ) AS r;
  RETURN QUERY SELECT * FROM "windlass"._take_back(
    doomed, _max_resets, coalesce(_now, statement_timestamp()));
  DELETE FROM "windlass"._workers AS w WHERE w.id = ANY (numbers);
END $$;


--
-- Name: _clocks; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._clocks (
    machine text NOT NULL,
    zero_at timestamp with time zone NOT NULL,
    since double precision NOT NULL,
    noted_at timestamp with time zone NOT NULL
);


--
-- Name: _watch_clock(text, double precision, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._watch_clock(_machine text, _at double precision, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT zero_micros bigint, OUT watched_since double precision) RETURNS record
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO windlass._clocks AS c (machine, zero_at, since, noted_at)  SELECT _watch_clock._machine AS _machine,
             (n.at - make_interval(secs => _watch_clock._at)),
             _watch_clock._at AS _at,
             n.at
            FROM ( SELECT COALESCE(_watch_clock._now, statement_timestamp()) AS at) n ON CONFLICT(machine) DO UPDATE SET noted_at = excluded.noted_at
   RETURNING windlass._micros(c.zero_at) AS _micros,
     c.since;
END;


--
-- Name: _write_any(windlass._request[], bigint[], text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._write_any(_requests windlass._request[], _numbers bigint[], _mode text, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_nestloop TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.place, _numbers[r.place] AS number, r.key IS NULL OR lag(r.key) OVER (ORDER BY r.key NULLS FIRST, r.place) IS DISTINCT FROM r.key AS is_first, r.due AS run_at, r.keep,
      "windlass"._due_state(r.due, r.queue, _at) AS state, r.priority, r.max_attempts,
      "windlass"._accepted(r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep) AS task,
      "windlass"._sound(r.payload) AS payload, r.key, r.queue, r.flags
    FROM unnest(_requests) WITH ORDINALITY AS r
      (task, payload, queue, due, max_attempts, key, mode, priority, flags, keep, place)
  ),
  written AS (
    INSERT INTO "windlass"._jobs AS j
      (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       key, queue, flags)
    SELECT
      g.number, g.run_at, _at, _at, g.keep, g.state, g.priority, g.max_attempts, g.task, g.payload,
      g.key, g.queue, g.flags
    FROM given AS g WHERE g.is_first
    ORDER BY g.key NULLS FIRST, g.place
    
    ON CONFLICT (key) WHERE key IS NOT NULL AND state <> 'cancelled' DO UPDATE SET
      task = excluded.task, payload = "windlass"._joined(j.payload, excluded.payload),
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
          THEN "windlass"._due_state(j.run_at, excluded.queue, _at)
        ELSE excluded.state
      END
    WHERE j.state <> 'running' AND (j.state <> 'ready' OR j.queue IS NULL)
    RETURNING j.id, j.key, j.queue, j.state, j.run_at
  )
  SELECT
    (
      SELECT array_agg(CASE WHEN g.key IS NULL THEN g.number ELSE w.id END ORDER BY g.place)
      FROM given AS g LEFT JOIN written AS w ON w.key = g.key AND g.is_first), ARRAY(SELECT DISTINCT w.queue FROM written AS w WHERE w.state = 'waiting'),
    n.is_due, n.is_soon
  INTO ids, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + interval '300 s') AS is_soon
    FROM written AS w
  ) AS n;
  PERFORM "windlass"._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;


--
-- Name: _write_new(windlass._request[], bigint[], text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._write_new(_requests windlass._request[], _numbers bigint[], _mode text, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_nestloop TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.place, _numbers[r.place] AS number, true AS is_first, r.due AS run_at, r.keep,
      "windlass"._due_state(r.due, r.queue, _at) AS state, r.priority, r.max_attempts,
      "windlass"._accepted(r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep) AS task,
      "windlass"._sound(r.payload) AS payload, r.key, r.queue, r.flags
    FROM unnest(_requests) WITH ORDINALITY AS r
      (task, payload, queue, due, max_attempts, key, mode, priority, flags, keep, place)
  ),
  written AS (
    INSERT INTO "windlass"._jobs AS j
      (id, run_at, created_at, updated_at, keep, state, priority, max_attempts, task, payload,
       key, queue, flags)
    SELECT
      g.number, g.run_at, _at, _at, g.keep, g.state, g.priority, g.max_attempts, g.task, g.payload,
      g.key, g.queue, g.flags
    FROM given AS g WHERE g.is_first
    ORDER BY g.key NULLS FIRST, g.place
    
    RETURNING j.id, j.key, j.queue, j.state, j.run_at
  )
  SELECT
    _numbers, ARRAY(SELECT DISTINCT w.queue FROM written AS w WHERE w.state = 'waiting'),
    n.is_due, n.is_soon
  INTO ids, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + interval '300 s') AS is_soon
    FROM written AS w
  ) AS n;
  PERFORM "windlass"._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;


--
-- Name: add_job(text, json, text, timestamp with time zone, integer, text, integer, text[], text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.add_job(identifier text, payload json DEFAULT '{}'::json, queue_name text DEFAULT NULL::text, run_at timestamp with time zone DEFAULT now(), max_attempts integer DEFAULT NULL::integer, job_key text DEFAULT NULL::text, priority integer DEFAULT 0, flags text[] DEFAULT NULL::text[], job_key_mode text DEFAULT 'replace'::text) RETURNS windlass.job
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  new_id bigint;
BEGIN
  new_id := "windlass"._add_job(
    identifier, "windlass"._fitting(payload, "windlass"._largest()), queue_name,
    coalesce("windlass"._finite(run_at), now()), max_attempts, job_key,
    coalesce(job_key_mode, 'replace'), coalesce(priority, 0), "windlass"._plain(flags), NULL,
    clock_timestamp());
  RETURN (
    SELECT "windlass"._public(j, (SELECT w.name FROM "windlass"._workers AS w WHERE w.id = j.worker))
    FROM "windlass"._jobs AS j WHERE j.id = new_id
  );
END $$;


--
-- Name: add_jobs(windlass.job_spec[], boolean); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.add_jobs(specs windlass.job_spec[], job_key_preserve_run_at boolean DEFAULT false) RETURNS SETOF windlass.job
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := clock_timestamp();
  most bigint := "windlass"._largest();
  mode text := CASE WHEN job_key_preserve_run_at THEN 'preserve_run_at' ELSE 'replace' END;
  ids bigint[];
BEGIN
  IF EXISTS (SELECT FROM unnest(specs) AS s WHERE s.job_key IS NOT NULL) THEN
    ids := "windlass"._add_keyed(
      ARRAY(
        SELECT ROW(
          s.identifier, "windlass"._fitting(s.payload, most), s.queue_name,
          coalesce("windlass"._finite(s.run_at), now()), s.max_attempts, s.job_key, mode,
          coalesce(s.priority, 0),
          CASE WHEN s.flags IS NOT NULL THEN "windlass"._plain(s.flags) END, NULL
        )::"windlass"._request
        FROM unnest(specs) AS s
      ),
      mode, at);
    RETURN QUERY
    SELECT ("windlass"._public(j, NULL)).* FROM unnest(ids) WITH ORDINALITY AS x (id, place)
    JOIN "windlass"._jobs AS j ON j.id = x.id
    ORDER BY x.place;
    RETURN;
  END IF;
  -- Nothing here changes the order in which they are given: a sort of so many would go to the disk.
  RETURN QUERY
  WITH given AS MATERIALIZED (  -- what is a column is no call below, however often it is used
    SELECT s.identifier, "windlass"._fitting(s.payload, most) AS payload, s.queue_name,
      coalesce("windlass"._finite(s.run_at), now()) AS due, s.max_attempts,
      coalesce(s.priority, 0) AS priority,
      CASE WHEN s.flags IS NOT NULL THEN "windlass"._plain(s.flags) END AS flags
    FROM unnest(specs) AS s
  ),
  added AS (
    INSERT INTO "windlass"._jobs AS j
      (run_at, created_at, updated_at, state, priority, max_attempts, task, payload, queue, flags)
    SELECT
      g.due, at, at, "windlass"._due_state(g.due, g.queue_name, at), g.priority, g.max_attempts,
      "windlass"._accepted(g.identifier, g.queue_name, NULL, g.max_attempts, g.flags, NULL),
      "windlass"._sound(g.payload), g.queue_name, g.flags
    FROM given AS g
    RETURNING j.*
  )
  SELECT ("windlass"._public(a, NULL)).* FROM added AS a
  WHERE (
    SELECT "windlass"._announce(
      ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting'),
      bool_or(x.state <> 'scheduled'),
      bool_or(x.state = 'scheduled' AND x.run_at <= at + interval '300 s')
    ) FROM added AS x
  );
END $$;


--
-- Name: complete_jobs(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.complete_jobs(job_ids bigint[]) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN QUERY SELECT c.* FROM "windlass"._change(
    job_ids, ROW('complete', NULL, NULL, NULL, NULL, NULL)::"windlass"._edit, statement_timestamp()
  ) AS c;
END $$;


--
-- Name: force_unlock_workers(text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.force_unlock_workers(worker_ids text[]) RETURNS SETOF windlass.job
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT (windlass._public(j.*, NULL::text)).id AS id,
     (windlass._public(j.*, NULL::text)).queue_name AS queue_name,
     (windlass._public(j.*, NULL::text)).task_identifier AS task_identifier,
     (windlass._public(j.*, NULL::text)).priority AS priority,
     (windlass._public(j.*, NULL::text)).run_at AS run_at,
     (windlass._public(j.*, NULL::text)).attempts AS attempts,
     (windlass._public(j.*, NULL::text)).max_attempts AS max_attempts,
     (windlass._public(j.*, NULL::text)).last_error AS last_error,
     (windlass._public(j.*, NULL::text)).created_at AS created_at,
     (windlass._public(j.*, NULL::text)).updated_at AS updated_at,
     (windlass._public(j.*, NULL::text)).key AS key,
     (windlass._public(j.*, NULL::text)).locked_at AS locked_at,
     (windlass._public(j.*, NULL::text)).locked_by AS locked_by,
     (windlass._public(j.*, NULL::text)).revision AS revision,
     (windlass._public(j.*, NULL::text)).flags AS flags,
     (windlass._public(j.*, NULL::text)).payload AS payload,
     (windlass._public(j.*, NULL::text)).state AS state
    FROM windlass._unlock(force_unlock_workers.worker_ids, 5) j(id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta);
END;


--
-- Name: permanently_fail_jobs(bigint[], text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.permanently_fail_jobs(job_ids bigint[], error_message text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  told text := coalesce(error_message, reason, 'Manually marked as failed');
BEGIN
  RETURN QUERY SELECT c.* FROM "windlass"._change(
    job_ids, ROW('fail', told, NULL, NULL, NULL, NULL)::"windlass"._edit, statement_timestamp()
  ) AS c;
END $$;


--
-- Name: remove_job(text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.remove_job(job_key text) RETURNS windlass.job
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN (SELECT windlass._public(j.*, (SELECT w.name FROM windlass._workers w WHERE (w.id = j.worker))) AS _public FROM windlass._remove_job(remove_job.job_key) j(id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta));


--
-- Name: reschedule_jobs(bigint[], timestamp with time zone, integer, integer, integer); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.reschedule_jobs(job_ids bigint[], run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT NULL::integer, attempts integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', max_attempts
      USING ERRCODE = 'GWBMA';
  END IF;
  RETURN QUERY SELECT c.* FROM "windlass"._change(
    job_ids,
    ROW('reschedule', NULL, "windlass"._finite(run_at), priority, attempts, max_attempts)
      ::"windlass"._edit,
    statement_timestamp()
  ) AS c;
END $$;


--
-- Name: _bells; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._bells (
    n bigint NOT NULL,
    queue text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='1');


--
-- Name: _bells_n_seq; Type: SEQUENCE; Schema: windlass; Owner: -
--

ALTER TABLE windlass._bells ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME windlass._bells_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: _in_batches; Type: VIEW; Schema: windlass; Owner: -
--

CREATE VIEW windlass._in_batches AS
 SELECT i.id,
    b.base,
    b.worker,
    b.claimed_at
   FROM ((windlass._batches b
     CROSS JOIN LATERAL unnest(b.ids) r(span))
     CROSS JOIN LATERAL generate_series(lower(r.span), (upper(r.span) - 1)) i(id));


--
-- Name: _jobs_id_seq; Type: SEQUENCE; Schema: windlass; Owner: -
--

ALTER TABLE windlass._jobs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME windlass._jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: _migrations; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._migrations (
    id integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    ts timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: _paused; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._paused (
    kind text NOT NULL,
    name text NOT NULL
);


--
-- Name: _workers_id_seq; Type: SEQUENCE; Schema: windlass; Owner: -
--

ALTER TABLE windlass._workers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME windlass._workers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: jobs; Type: VIEW; Schema: windlass; Owner: -
--

CREATE VIEW windlass.jobs AS
 SELECT j.id,
    j.queue AS queue_name,
    j.task AS task_identifier,
    j.priority,
    j.run_at,
        CASE
            WHEN (j.superseded OR (j.state = 'failed'::windlass._job_state)) THEN GREATEST(j.attempts, COALESCE(j.max_attempts, 25))
            ELSE (j.attempts + ((b.base IS NOT NULL))::integer)
        END AS attempts,
    COALESCE(j.max_attempts, 25) AS max_attempts,
    j.last_error,
    j.created_at,
    j.updated_at,
    j.key,
    COALESCE(j.claimed_at, b.claimed_at) AS locked_at,
    w.name AS locked_by,
    j.revision,
    j.flags,
        CASE
            WHEN (b.base IS NOT NULL) THEN 'running'::text
            WHEN (j.state = 'waiting'::windlass._job_state) THEN 'ready'::text
            ELSE (j.state)::text
        END AS state,
    (j.deliveries + ((b.base IS NOT NULL))::integer) AS deliveries,
    j.resets,
    j.keep,
    j.progress,
    j.finished_at
   FROM ((windlass._jobs j
     LEFT JOIN windlass._in_batches b ON (((b.id = j.id) AND (j.state = 'ready'::windlass._job_state) AND (j.deliveries = 0))))
     LEFT JOIN windlass._workers w ON ((w.id = COALESCE(j.worker, b.worker))));


--
-- Data for Name: _batches; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._batches (base, worker, claimed_at, ids) FROM stdin;
248882281798408142	1	2026-01-01 00:00:00+00	{[1,31)}
\.


--
-- Data for Name: _bells; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._bells (n, queue) FROM stdin;
\.


--
-- Data for Name: _clocks; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._clocks (machine, zero_at, since, noted_at) FROM stdin;
d70b4e38-0e97-4c98-a19a-26b8c3951f64	2025-12-31 23:43:20+00	1000	2026-01-01 00:00:00+00
\.


--
-- Data for Name: _history; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._history (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts, deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error, output, progress, log, meta) FROM stdin;
37	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2035-12-30 00:00:00+00	1235906275454435103	315360000	0	1	1	0	0	\N	kept	{}	done	\N	\N	\N	{"out":1}	[0.5,"half"]	["said"]	\N
\.


--
-- Data for Name: _jobs; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._jobs (id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta) FROM stdin;
6	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 5}	\N	\N	\N	\N	\N	\N	\N
7	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 6}	\N	\N	\N	\N	\N	\N	\N
8	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 7}	\N	\N	\N	\N	\N	\N	\N
9	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 8}	\N	\N	\N	\N	\N	\N	\N
10	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 9}	\N	\N	\N	\N	\N	\N	\N
11	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 10}	\N	\N	\N	\N	\N	\N	\N
12	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 11}	\N	\N	\N	\N	\N	\N	\N
13	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 12}	\N	\N	\N	\N	\N	\N	\N
14	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 13}	\N	\N	\N	\N	\N	\N	\N
15	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 14}	\N	\N	\N	\N	\N	\N	\N
16	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 15}	\N	\N	\N	\N	\N	\N	\N
17	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 16}	\N	\N	\N	\N	\N	\N	\N
18	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 17}	\N	\N	\N	\N	\N	\N	\N
19	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 18}	\N	\N	\N	\N	\N	\N	\N
20	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 19}	\N	\N	\N	\N	\N	\N	\N
21	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 20}	\N	\N	\N	\N	\N	\N	\N
22	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 21}	\N	\N	\N	\N	\N	\N	\N
23	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 22}	\N	\N	\N	\N	\N	\N	\N
24	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 23}	\N	\N	\N	\N	\N	\N	\N
25	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 24}	\N	\N	\N	\N	\N	\N	\N
26	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 25}	\N	\N	\N	\N	\N	\N	\N
27	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 26}	\N	\N	\N	\N	\N	\N	\N
28	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 27}	\N	\N	\N	\N	\N	\N	\N
29	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 28}	\N	\N	\N	\N	\N	\N	\N
30	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n": 29}	\N	\N	\N	\N	\N	\N	\N
31	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	-3	0	0	0	0	7	f	f	f	ready	{"a":1}	\N	\N	{x,y}	\N	\N	\N	\N
32	2026-01-02 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	0	0	0	0	\N	f	f	f	scheduled	{}	later	\N	\N	\N	\N	\N	\N
34	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	1	0	0	0	0	\N	f	f	f	line	[2]	\N	q	\N	\N	\N	\N	\N
35	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	1	0	\N	f	f	f	keyed	[1,2,3]	k	\N	\N	\N	\N	\N	\N
46	2026-01-01 01:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	0	0	0	0	\N	f	f	f	replaced	{}	r	\N	\N	\N	\N	\N	\N
33	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	line	[1]	\N	q	\N	\N	\N	\N	\N
38	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	2026-01-01 00:00:00+00	\N	failed	0	1	1	0	0	\N	f	f	f	failed	{}	broken	\N	\N	it went wrong	\N	\N	\N
39	2026-01-02 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	1	1	0	0	5	f	f	f	retry	{}	\N	\N	\N	not yet	\N	\N	\N
40	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	2026-01-01 00:00:00+00	\N	cancelled	0	0	0	0	0	\N	f	f	f	cancelled	{}	gone	\N	\N	\N	\N	\N	\N
41	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	1	0	0	\N	t	f	f	suspect	{}	\N	\N	\N	\N	\N	\N	\N
43	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	running	{"r":2}	\N	busy	\N	\N	\N	\N	\N
42	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	746894013177162931	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	f	f	running	{"r":1}	\N	busy	\N	\N	\N	\N	\N
44	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	1640324913024478998	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	f	t	stopping	{}	\N	\N	\N	\N	\N	\N	\N
45	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	3392385349111655743	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	t	f	replaced	{}	\N	\N	\N	\N	\N	\N	\N
\.


--
-- Data for Name: _migrations; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._migrations (id, name, breaking, ts) FROM stdin;
1	0001_tables	t	2026-11-17 21:20:37.819359+00
2	0002_adding	t	2026-11-17 21:20:37.819359+00
3	0003_batches	t	2026-11-17 21:20:37.819359+00
4	0004_claiming	t	2026-11-17 21:20:37.819359+00
5	0005_settling	t	2026-11-17 21:20:37.819359+00
6	0006_upkeep	t	2026-11-17 21:20:37.819359+00
7	0007_operators	t	2026-11-17 21:20:37.819359+00
8	0008_api	t	2026-11-17 21:20:37.819359+00
9	0009_schedules	f	2026-11-17 21:20:37.819359+00
\.


--
-- Data for Name: _paused; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._paused (kind, name) FROM stdin;
task	ready
queue	q
\.


--
-- Data for Name: _schedules; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._schedules (identifier, schedule, known_since, seen_at, floor_at, last_at, paused_at) FROM stdin;
nightly	{"identifier":"nightly","task":"nightly","pattern":"0 4 * * *","tz":"Europe/Berlin","fill":86400.0,"payload":{"a":1}}	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N
p	{"identifier":"p","task":"poll","pattern":"*/5 * * * *"}	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	2026-01-01 00:00:00+00
\.


--
-- Data for Name: _workers; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._workers (id, name, expires_at, lease, refused, tasks) FROM stdin;
1	batch-worker	2026-01-01 00:00:30+00	30	\N	\N
2	w	2026-01-01 00:00:30+00	30	\N	{running,stopping}
\.


--
-- Name: _bells_n_seq; Type: SEQUENCE SET; Schema: windlass; Owner: -
--

SELECT pg_catalog.setval('windlass._bells_n_seq', 4, true);


--
-- Name: _jobs_id_seq; Type: SEQUENCE SET; Schema: windlass; Owner: -
--

SELECT pg_catalog.setval('windlass._jobs_id_seq', 46, true);


--
-- Name: _workers_id_seq; Type: SEQUENCE SET; Schema: windlass; Owner: -
--

SELECT pg_catalog.setval('windlass._workers_id_seq', 3, true);


--
-- Name: _batches _batches_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._batches
    ADD CONSTRAINT _batches_pkey PRIMARY KEY (base);


--
-- Name: _bells _bells_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._bells
    ADD CONSTRAINT _bells_pkey PRIMARY KEY (n);


--
-- Name: _clocks _clocks_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._clocks
    ADD CONSTRAINT _clocks_pkey PRIMARY KEY (machine);


--
-- Name: _history _history_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._history
    ADD CONSTRAINT _history_pkey PRIMARY KEY (id);


--
-- Name: _jobs _jobs_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._jobs
    ADD CONSTRAINT _jobs_pkey PRIMARY KEY (id);


--
-- Name: _migrations _migrations_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._migrations
    ADD CONSTRAINT _migrations_pkey PRIMARY KEY (id);


--
-- Name: _paused _paused_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._paused
    ADD CONSTRAINT _paused_pkey PRIMARY KEY (kind, name);


--
-- Name: _schedules _schedules_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._schedules
    ADD CONSTRAINT _schedules_pkey PRIMARY KEY (identifier);


--
-- Name: _workers _workers_name_key; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._workers
    ADD CONSTRAINT _workers_name_key UNIQUE (name);


--
-- Name: _workers _workers_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._workers
    ADD CONSTRAINT _workers_pkey PRIMARY KEY (id);


--
-- Name: _history_expires; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _history_expires ON windlass._history USING btree (expires_at);


--
-- Name: _jobs_active; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _jobs_active ON windlass._jobs USING btree (queue) WHERE ((queue IS NOT NULL) AND (state = ANY (ARRAY['ready'::windlass._job_state, 'running'::windlass._job_state])));


--
-- Name: _jobs_ended; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ended ON windlass._jobs USING btree (state, finished_at) WHERE (state = ANY (ARRAY['failed'::windlass._job_state, 'cancelled'::windlass._job_state]));


--
-- Name: _jobs_key; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _jobs_key ON windlass._jobs USING btree (key) WHERE ((key IS NOT NULL) AND (state <> 'cancelled'::windlass._job_state));


--
-- Name: _jobs_ready; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ready ON windlass._jobs USING btree (task, priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND (NOT suspect));


--
-- Name: _jobs_running; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_running ON windlass._jobs USING btree (worker) WHERE (state = 'running'::windlass._job_state);


--
-- Name: _jobs_scheduled; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_scheduled ON windlass._jobs USING btree (run_at, id) WHERE (state = 'scheduled'::windlass._job_state);


--
-- Name: _jobs_suspect; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_suspect ON windlass._jobs USING btree (priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND suspect);


--
-- Name: _jobs_waiting; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_waiting ON windlass._jobs USING btree (queue, priority, run_at, id) WHERE (state = 'waiting'::windlass._job_state);


--
-- Name: _jobs_waiting_task; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_waiting_task ON windlass._jobs USING btree (task, queue, priority, run_at, id) WHERE (state = 'waiting'::windlass._job_state);


--
-- Name: FUNCTION _enqueue(_jobs text, _is_keyed boolean, _now timestamp with time zone, OUT at_micros bigint, OUT ids bigint[], OUT jobs text); Type: ACL; Schema: windlass; Owner: -
--

REVOKE ALL ON FUNCTION windlass._enqueue(_jobs text, _is_keyed boolean, _now timestamp with time zone, OUT at_micros bigint, OUT ids bigint[], OUT jobs text) FROM PUBLIC;


--
-- Name: FUNCTION add_job(identifier text, payload json, queue_name text, run_at timestamp with time zone, max_attempts integer, job_key text, priority integer, flags text[], job_key_mode text); Type: ACL; Schema: windlass; Owner: -
--

REVOKE ALL ON FUNCTION windlass.add_job(identifier text, payload json, queue_name text, run_at timestamp with time zone, max_attempts integer, job_key text, priority integer, flags text[], job_key_mode text) FROM PUBLIC;


--
-- Name: FUNCTION add_jobs(specs windlass.job_spec[], job_key_preserve_run_at boolean); Type: ACL; Schema: windlass; Owner: -
--

REVOKE ALL ON FUNCTION windlass.add_jobs(specs windlass.job_spec[], job_key_preserve_run_at boolean) FROM PUBLIC;


--
-- Name: FUNCTION remove_job(job_key text); Type: ACL; Schema: windlass; Owner: -
--

REVOKE ALL ON FUNCTION windlass.remove_job(job_key text) FROM PUBLIC;


--
-- PostgreSQL database dump complete
--


