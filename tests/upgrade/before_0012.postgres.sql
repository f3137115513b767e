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
	due timestamp with time zone,
	mode text,
	task text,
	payload json,
	queue text,
	max_attempts integer,
	key text,
	priority integer,
	flags text[],
	keep double precision,
	meta jsonb,
	tenant text,
	is_strict boolean
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
	state text,
	tenant text
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
-- Name: _refuse(text, text, text, integer, text[], double precision, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._refuse(task text, queue text, key text, max_attempts integer, flags text[], keep double precision, tenant text) RETURNS text
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
  ELSIF length(tenant) > 128 THEN
    RAISE EXCEPTION 'Tenant must have at most 128 characters, not %', length(tenant)
      USING ERRCODE = '22023';
  ELSIF keep IS DISTINCT FROM "windlass"._span(keep) THEN
    RAISE EXCEPTION 'A job cannot be kept for % seconds', keep USING ERRCODE = '22023';
  END IF;
  RAISE EXCEPTION 'Flags must be a list of at most 64 texts, none empty, 8192 characters in all'
    USING ERRCODE = '22023';
END $$;


--
-- Name: _accepted(text, text, text, integer, text[], double precision, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._accepted(task text, queue text, key text, max_attempts integer, flags text[], keep double precision, tenant text) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN ((task IS NOT NULL) AND ((((length(task) >= 1) AND (length(task) <= 128)) AND ((length(queue) >= 1) AND (length(queue) <= 128)) AND ((length(key) >= 1) AND (length(key) <= 512)) AND (max_attempts >= 1) AND ((keep >= (0)::double precision) AND (keep <= (251603539200.0)::double precision)) AND (length(tenant) <= 128) AND (array_ndims(flags) = 1) AND (cardinality(flags) <= 64) AND ((flags IS NULL) OR ((array_position(flags, NULL::text) IS NULL) AND (array_position(flags, ''::text) IS NULL) AND (length(array_to_string(flags, ''::text)) <= 8192)))) IS NOT FALSE)) THEN task ELSE windlass._refuse(task, queue, key, max_attempts, flags, keep, tenant) END;


--
-- Name: _add_alike(json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_alike(_jobs json, _at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  x record;
  due timestamptz;
  new_state "windlass"._job_state;
BEGIN
  SELECT y.* INTO x FROM json_to_record(_jobs) AS y (task text, payloads json, queue text, max_attempts integer, key text, priority integer, flags text[], keep float8, meta json, tenant text, is_strict boolean, run_at bigint, delay bigint, key_mode text);
  x.tenant := coalesce(x.tenant, '');
  x.is_strict := coalesce(x.is_strict, false);
  x.task := "windlass"._accepted(
    x.task, x.queue, NULL, x.max_attempts, x.flags, x.keep, x.tenant);
  due := "windlass"._finite(coalesce(
    timestamptz 'epoch' + x.run_at * interval '1 microsecond',
    _at + coalesce(x.delay, 0) * interval '1 microsecond'
  ));
  new_state := "windlass"._due_state(due, x.queue, _at);
  WITH added AS (
    INSERT INTO "windlass"._jobs AS j (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    SELECT x.task, "windlass"._sound(p.value), x.queue, x.max_attempts, x.key, coalesce(x.priority, 0), x.flags, x.keep, x.meta, coalesce(x.tenant, ''), coalesce(x.is_strict, false), due, _at, _at, new_state
    FROM json_array_elements(x.payloads) AS p
    RETURNING j.id
  )
  SELECT array_agg(a.id) INTO ids FROM added AS a;
  PERFORM "windlass"._announce(
    ARRAY[x.tenant], CASE WHEN new_state = 'waiting' THEN ARRAY[x.queue] END,
    new_state <> 'scheduled', new_state = 'scheduled' AND due <= _at + interval '300 s');
  RETURN ids;
END $$;


--
-- Name: _add_job(windlass._request, timestamp with time zone, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._add_job(r windlass._request, _at timestamp with time zone, _id bigint DEFAULT NULL::bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  old "windlass"._jobs;
  new_id bigint;
  new_state "windlass"._job_state;
BEGIN
  IF r.mode NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'Job key mode must be replace, preserve_run_at or unsafe_dedupe, not %', r.mode
      USING ERRCODE = 'GWBKM';
  END IF;
  r.task := "windlass"._accepted(
    r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep, r.tenant);
  r.payload := "windlass"._sound(r.payload);
  LOOP
    IF r.key IS NOT NULL THEN
      SELECT j.* INTO old FROM "windlass"._jobs AS j
      WHERE j.key = r.key AND j.tenant = r.tenant AND j.state <> 'cancelled' FOR NO KEY UPDATE;
      IF FOUND AND r.mode = 'unsafe_dedupe' THEN
        UPDATE "windlass"._jobs AS j SET revision = j.revision + 1, updated_at = _at
        WHERE j.id = old.id;
        RETURN old.id;
      ELSIF FOUND AND old.state = 'running' THEN
        -- It may complete, but not run again; the new request gets a row of its own.
        UPDATE "windlass"._jobs AS j SET key = NULL, superseded = true, updated_at = _at
        WHERE j.id = old.id;
      ELSIF FOUND THEN
        IF r.mode = 'preserve_run_at' AND old.state <> 'failed' AND old.attempts = 0 THEN
          r.due := old.run_at;
        END IF;
        new_id := old.id;
        new_state := "windlass"._due_state(r.due, r.queue, _at);
        UPDATE "windlass"._jobs AS j SET
          task = r.task, queue = r.queue, max_attempts = r.max_attempts, priority = r.priority, flags = r.flags, keep = r.keep, meta = r.meta, tenant = r.tenant, is_strict = r.is_strict, payload = "windlass"._joined(j.payload, r.payload),
          attempts = 0, resets = 0, suspect = false, holds = false, last_error = NULL, errors = NULL, progress = NULL, log = NULL, finished_at = NULL,
          run_at = r.due, revision = j.revision + 1, updated_at = _at, state = new_state
        WHERE j.id = new_id;
        IF old.queue IS NOT NULL AND (old.state = 'ready' OR old.holds) THEN
          PERFORM "windlass"._ring(ARRAY[old.tenant], ARRAY[old.queue]);
        END IF;
        EXIT;
      END IF;
    END IF;
    new_state := "windlass"._due_state(r.due, r.queue, _at);
    INSERT INTO "windlass"._jobs AS j (id, task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    VALUES (
      coalesce(_id, nextval('"windlass"._jobs_id_seq'::regclass)), r.task, r.payload, r.queue, r.max_attempts, r.key, r.priority, r.flags, r.keep, r.meta, r.tenant, r.is_strict, r.due, _at, _at, new_state
    )
    ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state <> 'cancelled' DO NOTHING
    RETURNING j.id INTO new_id;
    EXIT WHEN FOUND;
  END LOOP;
  PERFORM "windlass"._announce(
    ARRAY[r.tenant], CASE WHEN new_state = 'waiting' THEN ARRAY[r.queue] END,
    new_state <> 'scheduled', new_state = 'scheduled' AND r.due <= _at + interval '300 s');
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
  tenants text[];
  queues text[];
  requests "windlass"._request[];
  mode text;
BEGIN
  IF _is_keyed THEN
    SELECT
      array_agg(ROW(d.due, d.mode, x.task, coalesce(x.payload, 'null'), x.queue, x.max_attempts, x.key, coalesce(x.priority, 0), x.flags, x.keep, x.meta, coalesce(x.tenant, ''), coalesce(x.is_strict, false))::"windlass"._request ORDER BY x.place),
      CASE WHEN min(d.mode) = max(d.mode) THEN min(d.mode) END
    INTO requests, mode
    FROM ROWS FROM (json_to_recordset(_jobs) AS (task text, payload json, queue text, max_attempts integer, key text, priority integer, flags text[], keep float8, meta json, tenant text, is_strict boolean, run_at bigint, delay bigint, key_mode text))
      WITH ORDINALITY AS x (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, delay, key_mode, place)
    CROSS JOIN LATERAL (
      SELECT coalesce(x.key_mode, 'replace') AS mode, "windlass"._finite(coalesce(
        timestamptz 'epoch' + x.run_at * interval '1 microsecond',
        _at + coalesce(x.delay, 0) * interval '1 microsecond'
      )) AS due
    ) AS d;
    RETURN "windlass"._add_keyed(requests, mode, _at);
  END IF;
  WITH added AS (
    INSERT INTO "windlass"._jobs AS j (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    SELECT "windlass"._accepted(x.task, x.queue, x.key, x.max_attempts, x.flags, x.keep, x.tenant), "windlass"._sound(coalesce(x.payload, 'null')), x.queue, x.max_attempts, x.key, coalesce(x.priority, 0), x.flags, x.keep, x.meta, coalesce(x.tenant, ''), coalesce(x.is_strict, false), d.due, _at, _at, "windlass"._due_state(d.due, x.queue, _at)
    FROM ROWS FROM (json_to_recordset(_jobs) AS (task text, payload json, queue text, max_attempts integer, key text, priority integer, flags text[], keep float8, meta json, tenant text, is_strict boolean, run_at bigint, delay bigint, key_mode text))
      WITH ORDINALITY AS x (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, delay, key_mode, place)
    CROSS JOIN LATERAL (
      SELECT "windlass"._finite(coalesce(
        timestamptz 'epoch' + x.run_at * interval '1 microsecond',
        _at + coalesce(x.delay, 0) * interval '1 microsecond'
      )) AS due
    ) AS d
    ORDER BY x.place
    RETURNING j.id, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT n.ids, q.tenants, q.queues, n.is_due, n.is_soon
  INTO ids, tenants, queues, is_due, is_soon
  FROM (
    SELECT
      array_agg(a.id ORDER BY a.id) AS ids,
      bool_or(a.state <> 'scheduled') AS is_due,
      bool_or(a.state = 'scheduled' AND a.run_at <= _at + interval '300 s') AS is_soon
    FROM added AS a
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM added AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM "windlass"._announce(tenants, queues, is_due, is_soon);
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
        SELECT true FROM "windlass"._jobs AS j
        WHERE j.key = r.key AND j.tenant = r.tenant AND j.state <> 'cancelled'
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
    SELECT r.ordinality AS place FROM unnest(_requests) WITH ORDINALITY AS r
    WHERE ids[r.ordinality] IS NULL
    ORDER BY r.key NULLS FIRST, r.tenant, r.ordinality
  LOOP
    ids[request.place] := "windlass"._add_job(_requests[request.place], _at, numbers[request.place]);
  END LOOP;
  RETURN ids;
END $$;


--
-- Name: _admit(text[], text[], integer, text[], bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._admit(_tenants text[], _tasks text[], _limit integer, _forbidden text[], _after bigint, OUT is_more boolean, OUT heads tid[], OUT bells bigint[], OUT admitted bigint[], OUT heard bigint[], OUT kept bigint[], OUT last bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  most CONSTANT integer := 1000;
  is_paused boolean;
  numbers bigint[];
  rung text[];
  owners text[];
  found_heads tid[];
  found_bells bigint[];
  found_queues text[];
  found_owners text[];
  served text[] := '{}';
  served_owners text[] := '{}';
  foreign_heads tid[];
  unanswered bigint[];
  unanswered_queues text[];
  unanswered_owners text[];
BEGIN
  is_more := false;
  heads := '{}';
  bells := '{}';
  admitted := '{}';
  heard := '{}';
  kept := '{}';
  last := _after;
  IF NOT pg_try_advisory_xact_lock('5999473032045165895'::bigint) THEN
    is_more := true;
    RETURN;
  END IF;
  is_paused := EXISTS (SELECT FROM "windlass"._paused);  -- it stays so: pauses need the latch
  FOR look IN 1 .. 4 LOOP
    SELECT count(*) = most, coalesce(max(f.n), last), array_agg(f.n), array_agg(f.tenant),
      array_agg(f.queue)
    INTO is_more, last, numbers, owners, rung FROM (
      SELECT r.* FROM unnest(_tenants) AS t (name) CROSS JOIN LATERAL (
        (SELECT b.n, b.tenant, b.queue FROM "windlass"._bells AS b
         WHERE b.tenant = '' AND t.name = '' AND b.n > last ORDER BY b.n LIMIT most)
        UNION ALL
        (SELECT b.n, b.tenant, b.queue FROM "windlass"._bells AS b
         WHERE b.tenant > '' AND t.name IS NULL AND b.n > last ORDER BY b.n LIMIT most)
        UNION ALL
        (SELECT b.n, b.tenant, b.queue FROM "windlass"._bells AS b
         WHERE b.tenant <> '' AND b.tenant = t.name AND b.n > last ORDER BY b.n LIMIT most)
      ) AS r ORDER BY r.n LIMIT most
    ) AS f;
    heard := heard || numbers;
    IF is_paused THEN
      SELECT array_agg(u.n), array_agg(u.tenant), array_agg(u.name) INTO numbers, owners, rung
      FROM unnest(numbers, owners, rung) AS u (n, tenant, name)
      WHERE NOT EXISTS (
        SELECT FROM "windlass"._paused AS p
        WHERE p.tenant = u.tenant AND p.kind = 'queue' AND p.name = u.name
      );
    END IF;
    SELECT
      array_agg(h.tid) FILTER (WHERE h.is_ours),
      array_agg(q.n) FILTER (WHERE h.is_ours),
      array_agg(q.tenant) FILTER (WHERE h.is_ours),
      array_agg(q.name) FILTER (WHERE h.is_ours),
      array_agg(h.tid) FILTER (WHERE NOT h.is_ours),
      array_agg(q.n) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL),
      array_agg(q.tenant) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL),
      array_agg(q.name) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL)
    INTO found_heads, found_bells, found_owners, found_queues, foreign_heads,
      unanswered, unanswered_owners, unanswered_queues
    FROM (
      -- A queue that has a head by an earlier look gets no other: a better job may have come since.
      SELECT u.tenant, u.name, min(u.n) AS n
      FROM unnest(numbers, owners, rung) AS u (n, tenant, name)
      WHERE (u.tenant, u.name) NOT IN (SELECT s.tenant, s.name
        FROM unnest(served_owners, served) AS s (tenant, name))
      GROUP BY u.tenant, u.name
    ) AS q
    LEFT JOIN LATERAL (
      SELECT true AS is_busy FROM "windlass"._jobs AS j
      WHERE j.queue = q.name AND j.tenant = q.tenant AND j.queue IS NOT NULL
        AND j.state IN ('ready', 'running') LIMIT 1
    ) AS a ON true
    LEFT JOIN LATERAL (
      -- Whether any queue is held is asked once, and in this statement: a job that fails and then holds
      -- its queue must be seen either running or holding.
      SELECT true AS is_held FROM "windlass"._jobs AS j
      WHERE (SELECT EXISTS (SELECT FROM "windlass"._jobs AS i WHERE i.holds)) AND j.holds AND j.queue = q.name AND j.tenant = q.tenant LIMIT 1
    ) AS k ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM "windlass"._jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
        AND w.queue IS NOT NULL AND a.is_busy IS NULL AND k.is_held IS NULL
        AND (NOT is_paused OR NOT EXISTS (
          SELECT FROM "windlass"._paused AS p
          WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task))
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS f ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM "windlass"._jobs AS w
      WHERE w.holds AND w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
        AND a.is_busy IS NULL AND k.is_held
        AND (NOT is_paused OR NOT EXISTS (
          SELECT FROM "windlass"._paused AS p
          WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task))
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS g ON true
    CROSS JOIN LATERAL (
      SELECT coalesce(f.tid, g.tid) AS tid, coalesce(f.is_ours, g.is_ours) AS is_ours
    ) AS h;
    heads := heads || found_heads;
    bells := bells || found_bells;
    served := served || found_queues;
    served_owners := served_owners || found_owners;
    IF foreign_heads IS NOT NULL THEN
      admitted := admitted || "windlass"._make_ready(foreign_heads);
    END IF;
    IF unanswered IS NOT NULL THEN
      kept := kept || "windlass"._kept_bells(unanswered, unanswered_owners, unanswered_queues);
    END IF;
    EXIT WHEN NOT is_more OR cardinality(heads) >= _limit;
  END LOOP;
END $$;


--
-- Name: _all_tasks(text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._all_tasks(_tenants text[]) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    WITH RECURSIVE ready (owner, task) AS (
      SELECT t.name, "windlass"._next_ready_task(t.name, '') FROM unnest(_tenants) AS t (name)
      UNION ALL
      SELECT r.owner, "windlass"._next_ready_task(r.owner, r.task) FROM ready AS r
      WHERE r.task IS NOT NULL
    ),
    waiting (task) AS (
      SELECT (SELECT w.task FROM "windlass"._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL ORDER BY w.task LIMIT 1)
      UNION ALL
      SELECT (SELECT w.task FROM "windlass"._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task > o.task
              ORDER BY w.task LIMIT 1)
      FROM waiting AS o WHERE o.task IS NOT NULL
    )
    SELECT r.task FROM ready AS r WHERE r.task IS NOT NULL
    UNION
    SELECT w.task FROM waiting AS w WHERE w.task IS NOT NULL
    UNION
    SELECT j.task FROM "windlass"._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
    UNION
    SELECT j.task FROM "windlass"._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
  );
END $$;


--
-- Name: _announce(text[], text[], boolean, boolean); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._announce(_tenants text[], _queues text[], _is_due boolean, _is_soon boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _queues <> '{}' THEN
    PERFORM "windlass"._ring(_tenants, _queues);
  END IF;
  IF _is_due THEN
    PERFORM pg_notify('windlass:jobs', '');
  END IF;
  IF _is_soon THEN
    PERFORM pg_notify('windlass:jobs', 'due');
  END IF;
  RETURN true;
END $$;


--
-- Name: _appended(json, json, integer); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._appended(_list json, _entry json, _most integer) RETURNS json
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN (
    SELECT json_agg(l.entry ORDER BY l.place) FROM (
      SELECT e.entry, e.place FROM (
        SELECT o.entry, o.place
        FROM json_array_elements(_list) WITH ORDINALITY AS o (entry, place)
        UNION ALL SELECT _entry, 1000000000
      ) AS e ORDER BY e.place DESC LIMIT _most
    ) AS l
  );
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
    meta jsonb,
    errors json,
    tenant text DEFAULT ''::text NOT NULL,
    is_strict boolean DEFAULT false NOT NULL,
    holds boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0.0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0.05', autovacuum_analyze_threshold='5000', autovacuum_vacuum_cost_delay='1');


--
-- Name: _as_completed(windlass._jobs, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._as_completed(j windlass._jobs, _at timestamp with time zone) RETURNS windlass._jobs
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  j.state := 'completed';
  j.updated_at := _at;
  j.finished_at := _at;
  RETURN j;
END $$;


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
    tasks text[],
    tenants text[]
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
-- Name: _branches(text, text[], text[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._branches(_kind text, _tasks text[], _tenants text[], _marks bigint[], OUT tasks text[], OUT tenants text[], OUT marks bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  SELECT coalesce(array_agg(b.task ORDER BY b.n), '{}'),
    coalesce(array_agg(b.tenant ORDER BY b.n), '{}'),
    coalesce(array_agg(
      ARRAY[_marks[b.n][1], _marks[b.n][2], _marks[b.n][3]] ORDER BY b.n), '{}')
  INTO tasks, tenants, marks
  FROM (
    SELECT t.name AS task, t.n, CASE
      WHEN _kind = 'every' AND p.name IS NOT NULL THEN 'paused'
      WHEN _kind = 'named' THEN o.name ELSE '' END AS tenant
    FROM unnest(_tasks) WITH ORDINALITY AS t (name, n)
    CROSS JOIN unnest(CASE WHEN _kind = 'named' THEN _tenants ELSE '{""}' END) AS o (name)
    LEFT JOIN "windlass"._paused AS p
      ON p.kind = 'task' AND p.name = t.name AND p.tenant = o.name
    WHERE _kind = 'every' OR p.name IS NULL
  ) AS b;
END $$;


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
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  LOOP
    IF j.state = 'running' THEN
      UPDATE "windlass"._jobs AS k SET cancel_requested = true, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    ELSE
      PERFORM pg_notify('windlass:jobs', '') WHERE "windlass"._ended(
        ARRAY[j.id], ARRAY[j.tenant], nullif(ARRAY["windlass"._freed(j)], '{NULL}'));
      UPDATE "windlass"._jobs AS k SET
        state = 'cancelled', superseded = false, holds = false, finished_at = at, updated_at = at
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
  batched int8multirange;
  tenants text[];
  queues text[];
BEGIN
  SELECT s.bases, s.batched INTO bases, batched FROM "windlass"._seen(_ids) AS s;
  IF batched IS NOT NULL THEN
    BEGIN
      RETURN QUERY SELECT c.* FROM "windlass"._change_open(_ids, _edit, _at, bases, batched) AS c;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'WLBAT' THEN
      NULL;  -- undone: go on behind locks
    END;
  END IF;
  SELECT u.locked, u.tenants, u.queues INTO _ids, tenants, queues
  FROM "windlass"._unbatch(_ids, false) AS u;
  IF _edit.kind = 'reschedule' THEN
    PERFORM "windlass"._announce(tenants, queues, queues IS NOT NULL, false);
  ELSE
    PERFORM pg_notify('windlass:jobs', '') WHERE "windlass"._ended(
      ARRAY(SELECT k.id FROM "windlass"._jobs AS k
            WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, NULL)), tenants, queues);
  END IF;
  RETURN QUERY SELECT c.* FROM "windlass"._change_open(_ids, _edit, _at, NULL, NULL) AS c;
END $$;


--
-- Name: _change_open(bigint[], windlass._edit, timestamp with time zone, bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._change_open(_ids bigint[], _edit windlass._edit, _at timestamp with time zone, _bases bigint[], _batched int8multirange) RETURNS SETOF windlass.job
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _edit.kind = 'complete' THEN
    IF _batched IS NULL THEN
      INSERT INTO "windlass"._history (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, id, run_at, attempts, deliveries, revision, resets, token, last_error, errors, output, progress, log, created_at, finished_at, expires_at)
      SELECT (k).task, (k).payload, (k).queue, (k).max_attempts, (k).key, (k).priority, (k).flags, (k).keep, (k).meta, (k).tenant, (k).is_strict, (k).id, (k).run_at, (k).attempts, (k).deliveries, (k).revision, (k).resets, (k).token, (k).last_error, (k).errors, NULL, (k).progress, (k).log, (k).created_at, _at, _at + make_interval(secs => "windlass"._span(k.keep))
      FROM "windlass"._jobs AS k
      WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, NULL) AND "windlass"._span(k.keep) > 0;
    END IF;
    RETURN QUERY
    DELETE FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _batched)
    RETURNING ("windlass"._shown(k, NULL, 'completed', _at)).*;
  ELSIF _edit.kind = 'fail' THEN
    RETURN QUERY
    UPDATE "windlass"._jobs AS k SET
      state = 'failed', attempts = coalesce(k.max_attempts, 25),
      last_error = _edit.reason, finished_at = _at, updated_at = _at,
      holds = k.is_strict AND k.queue IS NOT NULL
    WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _batched)
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
      holds = CASE
        WHEN (k.state <> 'failed' OR _edit.attempts IS NOT NULL)
          AND coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, 25)
          THEN k.is_strict AND k.queue IS NOT NULL
        ELSE k.holds
      END,
      updated_at = _at
    WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _batched)
    RETURNING ("windlass"._public(k, NULL)).*;
    PERFORM "windlass"._announce(
      array_agg(k.tenant) FILTER (WHERE k.state = 'waiting' AND k.queue IS NOT NULL),
      array_agg(k.queue) FILTER (WHERE k.state = 'waiting' AND k.queue IS NOT NULL),
      bool_or(k.state IN ('ready', 'waiting')),
      bool_or(k.state = 'scheduled' AND k.run_at <= _at + interval '300 s')
    ) FROM "windlass"._jobs AS k WHERE k.id = ANY (_ids) AND "windlass"._is_open(k, _batched);
  END IF;
  IF _batched IS NOT NULL THEN
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
    PERFORM "windlass"._dissolve_batches(old);
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
  WHERE j.id IS NULL OR j.cancel_requested
    OR "windlass"._is_owned_in(j, x.token, bases) IS NOT TRUE;
END $$;


--
-- Name: _choose(tid[], tid[], bigint[], integer); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._choose(_picked tid[], _heads tid[], _bells bigint[], _limit integer, OUT picked tid[], OUT heads tid[], OUT kept bigint[], OUT last_before bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  left_over tid[];
BEGIN
  SELECT
    coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'ready' AND o.place <= _limit), '{}'),
    coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place <= _limit), '{}'),
    array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place > _limit)
  INTO picked, heads, left_over FROM (
    SELECT j.ctid AS tid, j.state,
      row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS place
    FROM "windlass"._jobs AS j WHERE j.ctid = ANY (_picked || _heads)
  ) AS o;
  IF cardinality(left_over) > _limit THEN
    PERFORM "windlass"._make_ready(left_over);
  ELSIF left_over IS NOT NULL THEN
    SELECT array_agg(h.n), min(h.n) - 1 INTO kept, last_before
    FROM unnest(left_over) AS l (tid)
    JOIN unnest(_heads, _bells) AS h (tid, n) ON h.tid = l.tid;
  END IF;
END $$;


--
-- Name: _claim(text, text[], text[], integer, integer, double precision, bigint, jsonb, text[], boolean, text[], bigint[], bigint, integer, bigint[], timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._claim(_worker text, _tasks text[], _tenants text[], _limit integer, _suspects integer, _lease double precision, _base bigint, _longer jsonb, _forbidden text[], _past_heads boolean, _after text[], _marks bigint[], _bell bigint, _least integer, _emptied bigint[], _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT leases text, OUT is_batch boolean, OUT is_more boolean, OUT next_after text[], OUT next_bell bigint, OUT entries bigint) RETURNS record
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
  is_every boolean := array_position(_tenants, NULL) IS NOT NULL;
  kind text := CASE
    WHEN is_every THEN 'every' WHEN _tenants = '{""}' THEN 'default' ELSE 'named' END;
  number bigint;
  is_paused boolean;
  is_held boolean;
  is_rung boolean;
  branches record;
  admission record;
  exchange record;
  pick record;
  parking record;
  choice record;
  picked tid[];
  heads tid[] := '{}';
  kept_bells bigint[];
  is_over boolean := false;
  taken integer;
  fitting bigint[];
  rows text;
  entries_before bigint := (pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready_others'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready_tenant'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_default'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_others'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_tenant'::regclass));
  batches_before bigint := pg_stat_get_xact_tuples_returned('"windlass"._batches_pkey'::regclass);
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM "windlass"._need_read_committed();
  END IF;
  is_batch := false;
  is_more := false;
  next_after := _after;
  next_bell := _bell;
  -- One question for what is seldom so: a claim should cost little where there is no more to do.
  SELECT
    (SELECT w.id FROM "windlass"._workers AS w
     WHERE w.name = _worker AND w.expires_at > at + make_interval(secs => _lease * 2 / 3)
       AND w.expires_at <= at + make_interval(secs => _lease)),
    EXISTS (SELECT FROM "windlass"._paused),
    EXISTS (SELECT FROM "windlass"._jobs AS j WHERE j.holds),
    ('' = ANY (_tenants)) IS TRUE
      AND EXISTS (SELECT FROM "windlass"._bells AS b WHERE b.tenant = '' AND b.n > _bell)
    OR is_every
      AND EXISTS (SELECT FROM "windlass"._bells AS b WHERE b.tenant > '' AND b.n > _bell)
    OR kind = 'named' AND EXISTS (
      SELECT FROM unnest(_tenants) AS t (name) CROSS JOIN LATERAL (
        SELECT FROM "windlass"._bells AS b
        WHERE b.tenant <> '' AND b.tenant = t.name AND b.n > _bell LIMIT 1
      ) AS r
    )
  INTO number, is_paused, is_held, is_rung;
  IF number IS NULL THEN
    number := "windlass"._beat(_worker, _lease, _now);
  END IF;
  IF _emptied <> '{}' THEN
    PERFORM "windlass"._drop_ended(_emptied);
  END IF;
  IF _tasks IS NULL THEN
    _tasks := "windlass"._all_tasks(_tenants);
  END IF;
  IF is_rung THEN
    admission := "windlass"._admit(_tenants, _tasks, _limit, _forbidden, _bell);
    heads := admission.heads;
    kept_bells := admission.kept;
    is_more := admission.is_more;
    next_bell := admission.last;
  END IF;
  IF _past_heads THEN
    exchange := "windlass"._exchange_heads(_tenants, _tasks, _forbidden, _after);
    next_after := exchange.next_after;
  END IF;
  IF is_paused OR kind = 'named' THEN
    branches := "windlass"._branches(kind, _tasks, _tenants, _marks);
    pick := "windlass"._pick(
      kind, branches.tasks, branches.tenants, _limit, _suspects, _forbidden, branches.marks);
  ELSE
    pick := "windlass"._pick(kind, _tasks, '{}', _limit, _suspects, _forbidden, _marks);
  END IF;
  picked := pick.picked;
  -- Jobs that a pause of their tenant keeps back are parked, and make room for others.
  FOR round IN 1 .. 10 LOOP
    EXIT WHEN NOT (is_paused AND is_every);
    parking := "windlass"._park(picked);
    picked := parking.left_over;
    is_more := is_more OR parking.count > 0 OR parking.is_refused;
    EXIT WHEN parking.count = 0 OR round = 10;
    pick := "windlass"._pick(
      kind, branches.tasks, branches.tenants, _limit, _suspects, _forbidden, branches.marks);
    picked := pick.picked;
  END LOOP;
  IF is_held THEN
    taken := cardinality(picked);
    picked := "windlass"._keep_back(picked);
    is_more := is_more OR cardinality(picked) < taken;
  END IF;
  IF heads <> '{}' AND cardinality(picked) + cardinality(heads) > _limit THEN
    is_over := true;
    choice := "windlass"._choose(picked, heads, admission.bells, _limit);
    picked := choice.picked;
    heads := choice.heads;
    kept_bells := kept_bells || choice.kept;
    next_bell := least(next_bell, choice.last_before);
  END IF;
  taken := cardinality(picked) + cardinality(heads);
  IF taken > 0 THEN
    PERFORM "windlass"._lock_worker(number, _worker, _base);
  END IF;
  -- Entries of ended batches, too, stay in their index while an old snapshot is open, and every
  -- claim reads them all: so many must not become more.
  IF cardinality(picked) >= _least
    AND pg_stat_get_xact_tuples_returned('"windlass"._batches_pkey'::regclass) - batches_before < 2000
  THEN
    -- The leases are put together here: their text is long, and to hand it on is to copy it.
    SELECT array_agg(j.id), string_agg("windlass"._lease(j, _base, 1, to_json(_worker)), ',')
    INTO fitting, leases
    FROM "windlass"._jobs AS j WHERE j.ctid = ANY (picked) AND "windlass"._fits_batch(j, _longer);
    IF cardinality(fitting) >= _least THEN
      is_batch := "windlass"._write_batch(fitting, pick.spans, number, at, _base);
    END IF;
  END IF;
  IF is_batch THEN
    taken := taken - cardinality(fitting);
  ELSE
    leases := NULL;  -- all of them become running rows
  END IF;
  IF taken > 0 THEN
    rows := "windlass"._write_rows(picked || heads, is_batch, number, _worker, at, _base, _longer);
  END IF;
  leases := '[' || concat_ws(',', leases, rows) || ']';
  entries := (pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready_others'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._jobs_ready_tenant'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_default'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_others'::regclass) + pg_stat_get_xact_tuples_returned('"windlass"._bells_tenant'::regclass)) - entries_before - pick.spare;
  IF _past_heads THEN
    PERFORM "windlass"._put_back(exchange.heads, exchange.candidates);
  END IF;
  IF is_rung THEN
    PERFORM "windlass"._end_admission(admission.heard, kept_bells, admission.admitted, is_over);
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
-- Name: _delete_failed(integer, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._delete_failed(_limit integer, _tenant text) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  gone bigint[];
  tenants text[];
  queues text[];
BEGIN
  WITH deleted AS (
    DELETE FROM "windlass"._jobs AS j WHERE j.ctid = ANY (ARRAY(
      SELECT o.ctid FROM "windlass"._jobs AS o
      WHERE o.state = 'failed' AND (_tenant IS NULL OR o.tenant = _tenant)
      ORDER BY o.finished_at LIMIT _limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING j.id, j.tenant, "windlass"._freed(j) AS queue
  )
  SELECT array_agg(d.id), array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
  INTO gone, tenants, queues FROM deleted AS d;
  PERFORM pg_notify('windlass:jobs', '') WHERE "windlass"._ended(gone, tenants, queues);
  RETURN coalesce(cardinality(gone), 0);
END $$;


--
-- Name: _dissolve_batches(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._dissolve_batches(_bases bigint[]) RETURNS void
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
-- Name: _drop_ended(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._drop_ended(_bases bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  DELETE FROM "windlass"._batches AS b WHERE b.base = ANY (ARRAY(
    SELECT c.base FROM "windlass"._batches AS c WHERE c.base = ANY (_bases)
    FOR UPDATE SKIP LOCKED
  ));
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
      j.errors := "windlass"._appended(
        j.errors,
        json_build_array(
          j.attempts, "windlass"._micros(at),
          (SELECT w.name FROM "windlass"._workers AS w WHERE w.id = j.worker),
          left(o.error, 4096)),
        10);
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
      payload = j.payload, last_error = j.last_error,
      errors = j.errors, updated_at = at,
      holds = CASE
        WHEN new_state = 'cancelled' OR j.superseded THEN false
        WHEN o.kind = 'fail' THEN j.is_strict AND j.queue IS NOT NULL
        ELSE j.holds
      END,
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
  IF new_state IN ('completed', 'failed', 'cancelled') THEN
    PERFORM "windlass"._ended(
      ARRAY[j.id], ARRAY[j.tenant], CASE WHEN j.queue IS NOT NULL THEN ARRAY[j.queue] END);
  ELSIF j.queue IS NOT NULL THEN
    PERFORM "windlass"._ring(ARRAY[j.tenant], ARRAY[j.queue]);
  END IF;
  RETURN new_state;
END $$;


--
-- Name: _end_admission(bigint[], bigint[], bigint[], boolean); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._end_admission(_heard bigint[], _kept bigint[], _admitted bigint[], _is_over boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _kept <> '{}' THEN
    _heard := ARRAY(
      SELECT h.n FROM unnest(_heard) AS h (n)
      WHERE h.n NOT IN (SELECT k.n FROM unnest(_kept) AS k (n))
    );
  END IF;
  DELETE FROM "windlass"._bells AS b WHERE b.tenant = '' AND b.n = ANY (_heard);
  IF EXISTS (SELECT FROM "windlass"._bells AS b WHERE b.tenant > '') THEN
    DELETE FROM "windlass"._bells AS b WHERE b.tenant > '' AND b.n = ANY (_heard);
  END IF;
  PERFORM pg_notify('windlass:jobs', '') WHERE _is_over OR EXISTS (
    SELECT FROM "windlass"._jobs AS j WHERE j.id = ANY (_admitted) AND j.state = 'ready'
  );
END $$;


--
-- Name: _ended(bigint[], text[], text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._ended(_ids bigint[], _tenants text[], _queues text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _queues IS NULL THEN
    RETURN false;
  END IF;
  PERFORM "windlass"._ring(_tenants, _queues);
  RETURN true;
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
  IF is_ours THEN  -- limit the wait for a key, unless the caller's transaction has a limit
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
-- Name: _exchange_heads(text[], text[], text[], text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._exchange_heads(_tenants text[], _tasks text[], _forbidden text[], _after text[], OUT heads bigint[], OUT candidates bigint[], OUT next_after text[]) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  most integer := greatest(1, least(200, 2000 / greatest(cardinality(_tasks), 1)));
  is_every boolean := array_position(_tenants, NULL) IS NOT NULL;
  swap record;
BEGIN
  heads := '{}';
  candidates := '{}';
  next_after := '{}';
  IF NOT pg_try_advisory_xact_lock('5999473032045165895'::bigint) THEN
    next_after := _after;
    RETURN;
  END IF;
  FOR swap IN
    WITH RECURSIVE step (task, owner, tenant, queue, n) AS (
      SELECT t.name, o.name, f.tenant, f.queue, 1
      FROM unnest(_tasks) AS t (name)
      CROSS JOIN unnest(CASE WHEN is_every THEN '{NULL}' ELSE _tenants END) AS o (name)
      LEFT JOIN LATERAL "windlass"._next_waiting(
        o.name, t.name, coalesce(_after[1], ''), coalesce(_after[2], '')) AS f ON true
      UNION ALL
      SELECT s.task, s.owner, f.tenant, f.queue, s.n + 1
      FROM step AS s
      LEFT JOIN LATERAL "windlass"._next_waiting(s.owner, s.task, s.tenant, s.queue) AS f ON true
      WHERE s.queue IS NOT NULL AND s.n < most
    )
    SELECT DISTINCT ON (s.tenant, s.queue)
      s.tenant, s.queue, h.id AS head, c.id AS candidate,
      (SELECT ARRAY[x.tenant, x.queue] FROM step AS x WHERE x.n = most AND x.queue IS NOT NULL
       ORDER BY x.tenant, x.queue LIMIT 1) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM "windlass"._jobs AS h
      WHERE h.queue = s.queue AND h.tenant = s.tenant AND h.queue IS NOT NULL
        AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      (h.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS NOT TRUE
      OR h.flags && _forbidden
      OR EXISTS (SELECT FROM "windlass"._paused AS p
                 WHERE p.tenant = h.tenant AND p.kind = 'task' AND p.name = h.task)
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM "windlass"._jobs AS w
      WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = s.task
        AND w.tenant = s.tenant AND w.queue = s.queue AND h.id IS NOT NULL
        AND (w.flags && _forbidden) IS NOT TRUE
        AND NOT EXISTS (SELECT FROM "windlass"._paused AS p
                        WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
        AND NOT EXISTS (SELECT FROM "windlass"._jobs AS k
                        WHERE k.holds AND k.queue = w.queue AND k.tenant = w.tenant)
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.tenant, s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '{}');
    CONTINUE WHEN swap.candidate IS NULL;
    PERFORM FROM "windlass"._jobs AS j
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
-- Name: _expire(bigint[], bigint[], integer, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._expire(_ids bigint[], _tokens bigint[], _max_resets integer, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  doomed bigint[];
  states jsonb;
BEGIN
  PERFORM "windlass"._need_read_committed();
  PERFORM "windlass"._unbatch_owned(_ids, _tokens);
  SELECT array_agg(l.id) INTO doomed FROM (
    SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
    JOIN "windlass"._jobs AS k ON k.id = x.id AND k.state = 'running' AND k.token = x.token
    ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
  ) AS l;
  SELECT coalesce(jsonb_object_agg(t.id::text, t.state::text), '{}') INTO states
  FROM "windlass"._take_back(doomed, _max_resets, at) AS t;
  RETURN (
    SELECT json_agg(coalesce(
      CASE WHEN y.is_first THEN states ->> y.id::text END, "windlass"._refusal(y.id, y.token)
    ) ORDER BY y.place)
    FROM (
      SELECT x.*, row_number() OVER (PARTITION BY x.id ORDER BY x.place) = 1 AS is_first
      FROM unnest(_ids, _tokens) WITH ORDINALITY AS x (id, token, place)
    ) AS y
  );
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
    meta jsonb,
    errors json,
    tenant text DEFAULT ''::text NOT NULL,
    is_strict boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500');


--
-- Name: _file(windlass._jobs, json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._file(j windlass._jobs, _output json, _at timestamp with time zone) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO windlass._history (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, id, run_at, attempts, deliveries, revision, resets, token, last_error, errors, output, progress, log, created_at, finished_at, expires_at)
   VALUES ((_file.j).task, (_file.j).payload, (_file.j).queue, (_file.j).max_attempts, (_file.j).key, (_file.j).priority, (_file.j).flags, (_file.j).keep, (_file.j).meta, (_file.j).tenant, (_file.j).is_strict, (_file.j).id, (_file.j).run_at, (_file.j).attempts, (_file.j).deliveries, (_file.j).revision, (_file.j).resets, (_file.j).token, (_file.j).last_error, (_file.j).errors, _file._output, (_file.j).progress, (_file.j).log, (_file.j).created_at, _file._at, (_file._at + make_interval(secs => windlass._span((_file.j).keep))));
END;


--
-- Name: _finite(timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._finite(instant timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (instant IS NOT NULL) THEN LEAST(GREATEST(instant, '1970-01-01 00:00:00+00'::timestamp with time zone), '9999-12-31 23:59:59+00'::timestamp with time zone) ELSE NULL::timestamp with time zone END;


--
-- Name: _fire(text, text, timestamp with time zone, timestamp with time zone, text, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._fire(_tenant text, _identifier text, _expected timestamp with time zone, _until timestamp with time zone, _jobs text, _is_keyed boolean, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT verdict text, OUT floor_micros bigint) RETURNS record
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, clock_timestamp());
  s "windlass"._schedules;
BEGIN
  SELECT k.* INTO s FROM "windlass"._schedules AS k
  WHERE k.tenant = _tenant AND k.identifier = _identifier FOR UPDATE;
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
    WHERE k.tenant = _tenant AND k.identifier = _identifier;
    floor_micros := "windlass"._micros(_until);
    PERFORM "windlass"._add_jobs(_jobs::json, _is_keyed, at);
  END IF;
END $$;


--
-- Name: _fits_batch(windlass._jobs, jsonb); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._fits_batch(j windlass._jobs, _longer jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((j).deliveries = 0) AND ((j).key IS NULL) AND ((j).queue IS NULL) AND (NOT (_longer ? (j).task)));


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
    paused_at timestamp with time zone,
    tenant text DEFAULT ''::text NOT NULL
);


--
-- Name: _forget_schedule(text, text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._forget_schedule(_tenant text, _identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM "windlass"._schedules AS s WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
$$;


--
-- Name: _freed(windlass._jobs); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._freed(j windlass._jobs) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (((j).state = ANY (ARRAY['ready'::windlass._job_state, 'running'::windlass._job_state])) OR (j).holds) THEN (j).queue ELSE NULL::text END;


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
    RETURN json_build_array((h).task, ((h).payload)::text, (h).queue, (h).max_attempts, (h).key, (h).priority, windlass._listed((h).flags), windlass._span((h).keep), ((h).meta)::text, (h).tenant, ((h).is_strict)::integer, (h).id, 'completed', windlass._micros((h).run_at), (h).attempts, (h).deliveries, (h).revision, (h).resets, 0, 0, 0, 0, NULL::unknown, (h).token, NULL::unknown, (h).last_error, ((h).errors)::text, ((h).output)::text, ((h).progress)::text, ((h).log)::text, windlass._micros((h).created_at), windlass._micros((h).finished_at), windlass._micros((h).finished_at), windlass._micros((h).expires_at));


--
-- Name: _introduce(text, text[], text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._introduce(_worker text, _tasks text[], _tenants text[]) RETURNS boolean
    LANGUAGE sql
    BEGIN ATOMIC
 UPDATE windlass._workers w SET tasks = _introduce._tasks, tenants = _introduce._tenants
   WHERE ((w.name = _introduce._worker) AND ((w.tasks IS DISTINCT FROM _introduce._tasks) OR (w.tenants IS DISTINCT FROM _introduce._tenants)));
 SELECT (EXISTS ( SELECT
            FROM windlass._workers w
           WHERE (w.name = _introduce._worker))) AS "exists";
END;


--
-- Name: _is_simple(windlass._jobs); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_simple(j windlass._jobs) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((j).key IS NULL) AND ((j).queue IS NULL) AND ((j).keep IS NULL));


--
-- Name: _is_open(windlass._jobs, int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_open(j windlass._jobs, batched int8multirange) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((j).state = ANY (ARRAY['scheduled'::windlass._job_state, 'waiting'::windlass._job_state, 'ready'::windlass._job_state, 'failed'::windlass._job_state])) AND ((batched IS NULL) OR (windlass._is_simple(j) AND (NOT (((j).state = 'ready'::windlass._job_state) AND ((j).deliveries = 0) AND (batched @> (j).id))))));


--
-- Name: _is_owned_in(windlass._jobs, bigint, bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_owned_in(j windlass._jobs, _token bigint, _bases bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((((j).state = 'running'::windlass._job_state) AND ((j).token = _token)) OR (((j).state = 'ready'::windlass._job_state) AND ((j).deliveries = 0) AND ((_token - (j).id) = ANY (_bases))));


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
-- Name: _is_owned(windlass._jobs, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_owned(j windlass._jobs, _token bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN windlass._is_owned_in(j, _token, ARRAY(SELECT b.base FROM windlass._batches b WHERE (b.base = (_is_owned._token - (_is_owned.j).id))));


--
-- Name: _is_stranded(text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._is_stranded(_task text, _at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM (
      (SELECT j.tenant FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _task LIMIT 1)
      UNION ALL
      (SELECT j.tenant FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _task LIMIT 1000)
      UNION ALL
      (SELECT j.tenant FROM "windlass"._jobs AS j
       WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task = _task LIMIT 1000)
      UNION ALL
      (SELECT j.tenant FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task = _task LIMIT 1)
      UNION ALL
      (SELECT j.tenant FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = _task LIMIT 1000)
    ) AS f
    WHERE NOT EXISTS (
      SELECT FROM "windlass"._paused AS p
      WHERE p.tenant = f.tenant AND p.kind = 'task' AND p.name = _task
    ) AND NOT EXISTS (
      SELECT FROM "windlass"._workers AS w
      WHERE w.expires_at > _at AND _task = ANY (w.tasks)
        AND (w.tenants IS NULL OR f.tenant = ANY (w.tenants))
    )
  );
END $$;


--
-- Name: _joined(json, json); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._joined(old json, new json) RETURNS json
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN ((json_typeof(old) <> 'array'::text) OR (json_typeof(new) <> 'array'::text)) THEN new WHEN (json_array_length(old) = 0) THEN new WHEN (json_array_length(new) = 0) THEN old ELSE ((("left"(rtrim((old)::text, ' 	

'::text), '-1'::integer) || ','::text) || substr(ltrim((new)::text, ' 	

'::text), 2)))::json END;


--
-- Name: _keep_back(tid[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._keep_back(_picked tid[]) RETURNS tid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  kept tid[];
BEGIN
  kept := ARRAY(
    SELECT j.ctid FROM "windlass"._jobs AS j
    WHERE j.ctid = ANY (_picked) AND j.queue IS NOT NULL AND NOT j.holds AND EXISTS (
      SELECT FROM "windlass"._jobs AS k
      WHERE k.holds AND k.queue = j.queue AND k.tenant = j.tenant
    )
  );
  IF kept = '{}' THEN
    RETURN _picked;
  END IF;
  UPDATE "windlass"._jobs AS j SET state = 'waiting' WHERE j.ctid = ANY (kept);
  RETURN ARRAY(SELECT p.tid FROM unnest(_picked) AS p (tid) WHERE p.tid <> ALL (kept));
END $$;


--
-- Name: _kept_bells(bigint[], text[], text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._kept_bells(_bells bigint[], _tenants text[], _queues text[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT q.n FROM unnest(_bells, _tenants, _queues) AS q (n, tenant, name)
    WHERE CASE
      WHEN EXISTS (SELECT FROM "windlass"._jobs AS j
                   WHERE j.holds AND j.queue = q.name AND j.tenant = q.tenant)
      THEN EXISTS (
        SELECT FROM "windlass"._jobs AS w
        WHERE w.holds AND w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
          AND NOT EXISTS (
            SELECT FROM "windlass"._paused AS p
            WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
      )
      ELSE EXISTS (
        SELECT FROM "windlass"._jobs AS w
        WHERE w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
          AND w.queue IS NOT NULL
          AND NOT EXISTS (
            SELECT FROM "windlass"._paused AS p
            WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
      )
    END
  );
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
    RETURN (('['::text || concat_ws(','::text, to_json((j).task), to_json(((j).payload)::text), COALESCE((to_json((j).queue))::text, 'null'::text), COALESCE(((j).max_attempts)::text, 'null'::text), COALESCE((to_json((j).key))::text, 'null'::text), (j).priority, COALESCE((to_json(windlass._listed((j).flags)))::text, 'null'::text), COALESCE((windlass._span((j).keep))::text, 'null'::text), COALESCE((to_json(((j).meta)::text))::text, 'null'::text), to_json((j).tenant), ((j).is_strict)::integer, (j).id, (base + (j).id), worker, ((j).attempts + more), ((j).deliveries + more), windlass._quick_micros((j).run_at), (j).revision, (j).resets, ((j).suspect)::text, windlass._quick_micros((j).created_at), windlass._quick_micros((j).updated_at), COALESCE((to_json((j).last_error))::text, 'null'::text))) || ']'::text);


--
-- Name: _lock_worker(bigint, text, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._lock_worker(_number bigint, _worker text, _base bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM FROM "windlass"._workers AS w
  WHERE w.id = _number AND (w.refused IS NULL OR _base <> ALL (w.refused))
  FOR KEY SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'The worker % was ended, or has given up this claim', _worker
      USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN _number;
END $$;


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
-- Name: _next_ready_task(text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._next_ready_task(_tenant text, _task text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _tenant IS NULL THEN
    RETURN (SELECT j.task FROM "windlass"._jobs AS j
            WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _task
            ORDER BY j.task LIMIT 1);
  ELSIF _tenant = '' THEN
    RETURN (SELECT j.task FROM "windlass"._jobs AS j
            WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _task
            ORDER BY j.task LIMIT 1);
  END IF;
  RETURN (SELECT j.task FROM "windlass"._jobs AS j
          WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = _tenant
            AND j.task > _task
          ORDER BY j.task LIMIT 1);
END $$;


--
-- Name: _next_task(text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._next_task(_low text, _high text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _high IS NULL THEN
    RETURN least(
      (SELECT j.task FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _low
       ORDER BY j.task LIMIT 1),
      (SELECT j.task FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _low
       ORDER BY j.task LIMIT 1),
      (SELECT j.task FROM "windlass"._jobs AS j
       WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > _low
       ORDER BY j.task LIMIT 1)
    );
  END IF;
  RETURN least(
    (SELECT j.task FROM "windlass"._jobs AS j
     WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _low
       AND j.task < _high
     ORDER BY j.task LIMIT 1),
    (SELECT j.task FROM "windlass"._jobs AS j
     WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _low
       AND j.task < _high
     ORDER BY j.task LIMIT 1),
    (SELECT j.task FROM "windlass"._jobs AS j
     WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > _low AND j.task < _high
     ORDER BY j.task LIMIT 1)
  );
END $$;


--
-- Name: _next_waiting(text, text, text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._next_waiting(_owner text, _task text, _tenant text, _queue text, OUT tenant text, OUT queue text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _owner IS NULL THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM "windlass"._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task
      AND (w.tenant, w.queue) > (_tenant, _queue)
    ORDER BY w.tenant, w.queue LIMIT 1;
  ELSIF (_owner, '') > (_tenant, _queue) THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM "windlass"._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task AND w.tenant = _owner
    ORDER BY w.queue LIMIT 1;
  ELSIF _owner = _tenant THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM "windlass"._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task AND w.tenant = _owner
      AND w.queue > _queue
    ORDER BY w.queue LIMIT 1;
  END IF;
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
  PERFORM "windlass"._unbatch_owned(ARRAY[_id], ARRAY[_token]);
  SELECT k.* INTO j FROM "windlass"._jobs AS k
  WHERE k.id = _id AND k.token = _token AND k.state = 'running' FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN "windlass"._refusal(_id, _token);
  END IF;
  UPDATE "windlass"._jobs AS k SET
    progress = coalesce(_progress, k.progress),
    log = CASE
      WHEN _entry IS NULL THEN k.log ELSE "windlass"._appended(k.log, _entry, _most)
    END,
    updated_at = coalesce(_now, statement_timestamp())
  WHERE k.id = _id;
  RETURN 'applied';
END $$;


--
-- Name: _of_tenant(bigint[], text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._of_tenant(_ids bigint[], _tenant text) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _tenant IS NULL THEN
    RETURN _ids;
  END IF;
  RETURN ARRAY(
    SELECT j.id FROM "windlass"._jobs AS j WHERE j.id = ANY (_ids) AND j.tenant = _tenant
  );
END $$;


--
-- Name: _own_strict(); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._own_strict() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN COALESCE((NULLIF(current_setting('windlass.strict'::text, true), ''::text))::boolean, false);


--
-- Name: _own_tenant(); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._own_tenant() RETURNS text
    LANGUAGE sql STABLE
    RETURN COALESCE(current_setting('windlass.tenant'::text, true), ''::text);


--
-- Name: _park(tid[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._park(_picked tid[], OUT left_over tid[], OUT count integer, OUT is_refused boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  met tid[];
  tenants text[];
  queues text[];
BEGIN
  count := 0;
  is_refused := false;
  SELECT
    coalesce(array_agg(j.ctid) FILTER (WHERE p.name IS NULL), '{}'),
    array_agg(j.ctid) FILTER (WHERE p.name IS NOT NULL)
  INTO left_over, met
  FROM "windlass"._jobs AS j
  LEFT JOIN "windlass"._paused AS p
    ON p.tenant = j.tenant AND p.kind = 'task' AND p.name = j.task AND j.tenant <> ''
  WHERE j.ctid = ANY (_picked);
  IF met IS NULL THEN
    RETURN;
  END IF;
  IF NOT pg_try_advisory_xact_lock('5999473032045165895'::bigint) THEN
    is_refused := true;
    RETURN;
  END IF;
  met := met || ARRAY(
    SELECT m.tid FROM (
      SELECT DISTINCT j.tenant, j.task FROM "windlass"._jobs AS j WHERE j.ctid = ANY (met)
    ) AS o
    CROSS JOIN LATERAL (
      SELECT k.ctid AS tid FROM "windlass"._jobs AS k
      WHERE k.state = 'ready' AND NOT k.suspect AND k.tenant <> '' AND k.tenant = o.tenant
        AND k.task = o.task
      ORDER BY k.priority, k.run_at, k.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
    ) AS m
  );
  WITH parked AS (
    UPDATE "windlass"._jobs AS j SET state = 'waiting'
    WHERE j.ctid = ANY (met) AND EXISTS (
      SELECT FROM "windlass"._paused AS p
      WHERE p.tenant = j.tenant AND p.kind = 'task' AND p.name = j.task
    ) AND NOT (
      j.deliveries = 0 AND EXISTS (SELECT FROM "windlass"._batches AS b WHERE b.ids @> j.id)
    )
    RETURNING j.tenant, j.queue
  )
  SELECT count(*), array_agg(k.tenant) FILTER (WHERE k.queue IS NOT NULL),
    array_agg(k.queue) FILTER (WHERE k.queue IS NOT NULL)
  INTO count, tenants, queues FROM parked AS k;
  PERFORM "windlass"._ring(tenants, queues);
END $$;


--
-- Name: _pause(text, text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pause(_tenant text, _kind text, _name text) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM "windlass"._need_read_committed();
  -- Lock the rows before the latch: a wait for a row must not keep the latch from claims.
  PERFORM FROM "windlass"._jobs AS j
  WHERE _kind = 'queue' AND j.queue = _name AND j.tenant = _tenant AND j.queue IS NOT NULL
    AND j.state = 'ready'
  FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock('5999473032045165895'::bigint);
  INSERT INTO "windlass"._paused (tenant, kind, name) VALUES (_tenant, _kind, _name)
  ON CONFLICT DO NOTHING;
  IF _kind = 'queue' THEN
    UPDATE "windlass"._jobs AS j SET state = 'waiting'
    WHERE j.queue = _name AND j.tenant = _tenant AND j.queue IS NOT NULL AND j.state = 'ready';
  END IF;
END $$;


--
-- Name: _pause_schedule(text, text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pause_schedule(_tenant text, _identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE "windlass"._schedules AS s
  SET paused_at = coalesce(s.paused_at, _now, statement_timestamp())
  WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
$$;


--
-- Name: _pick(text, text[], text[], integer, integer, text[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick(_kind text, _tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], OUT picked tid[], OUT spare bigint, OUT spans integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  bases bigint[];
  batched int8multirange;
BEGIN
  picked := '{}';
  spare := 0;
  spans := 0;
  IF cardinality(_tasks) = 0 OR _limit <= 0 THEN
    RETURN;
  END IF;
  -- Where only the default tenant has jobs to claim, what others would have is not read. After marks
  -- it is: dead entries before them are not to be read again.
  IF _kind = 'every' AND _marks = '{}' AND NOT EXISTS (
    SELECT FROM "windlass"._jobs AS j
    WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > ''
  ) AND NOT EXISTS (
    SELECT FROM "windlass"._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
  ) THEN
    _kind := 'default';
  END IF;
  bases := ARRAY(SELECT b.base FROM "windlass"._batches AS b);
  -- To pass by a row that another claim has locked costs many times what one of its batch does. So
  -- where there are batches, large claims take turns; each waits about 10 ms at most.
  IF _limit >= 500 AND bases <> '{}' THEN
    FOR attempt IN 1 .. 10 LOOP
      EXIT WHEN pg_try_advisory_xact_lock('8300016935918158657'::bigint);
      PERFORM pg_sleep(0.001);
    END LOOP;
    bases := ARRAY(SELECT b.base FROM "windlass"._batches AS b);
  END IF;
  LOOP
    batched := '{}';
    IF bases <> '{}' THEN
      SELECT coalesce(range_agg(r.span), '{}'), count(*) INTO batched, spans
      FROM "windlass"._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
      WHERE b.base = ANY (bases);
    END IF;
    -- Each branch reads one job ahead, of each index.
    spare := cardinality(_tasks) * CASE WHEN _kind = 'every' THEN 2 ELSE 1 END;
    IF cardinality(_tasks) > 16 THEN
      SELECT m.picked, m.spare INTO picked, spare FROM "windlass"._pick_many(
        _kind, _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched) AS m;
    ELSE
      picked := CASE
        WHEN _kind = 'default' THEN CASE
          WHEN cardinality(_tasks) = 1 THEN "windlass"._pick_default_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN "windlass"._pick_default_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE "windlass"._pick_default_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
        WHEN _kind = 'every' THEN CASE
          WHEN cardinality(_tasks) = 1 THEN "windlass"._pick_every_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN "windlass"._pick_every_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE "windlass"._pick_every_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
        ELSE CASE
          WHEN cardinality(_tasks) = 1 THEN "windlass"._pick_named_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN "windlass"._pick_named_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE "windlass"._pick_named_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
      END;
    END IF;
    -- The look afterwards. A batch that was written in the meantime may have some of these.
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
-- Name: _pick_default_1(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_default_1(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_default_16(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_default_16(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[5]
           AND coalesce(_tenants[5], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[5][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
             coalesce(_marks[5][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[6]
           AND coalesce(_tenants[6], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[6][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
             coalesce(_marks[6][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[7]
           AND coalesce(_tenants[7], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[7][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
             coalesce(_marks[7][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[8]
           AND coalesce(_tenants[8], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[8][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
             coalesce(_marks[8][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[9]
           AND coalesce(_tenants[9], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[9][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
             coalesce(_marks[9][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[10]
           AND coalesce(_tenants[10], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[10][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
             coalesce(_marks[10][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[11]
           AND coalesce(_tenants[11], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[11][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
             coalesce(_marks[11][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[12]
           AND coalesce(_tenants[12], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[12][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
             coalesce(_marks[12][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[13]
           AND coalesce(_tenants[13], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[13][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
             coalesce(_marks[13][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[14]
           AND coalesce(_tenants[14], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[14][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
             coalesce(_marks[14][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[15]
           AND coalesce(_tenants[15], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[15][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
             coalesce(_marks[15][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[16]
           AND coalesce(_tenants[16], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[16][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
             coalesce(_marks[16][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_default_4(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_default_4(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_every_1(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_every_1(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = ANY (_tasks)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_every_16(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_every_16(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[2]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[3]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[4]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[5]
           AND coalesce(_tenants[5], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[5][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
             coalesce(_marks[5][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[5]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[5][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
             coalesce(_marks[5][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[6]
           AND coalesce(_tenants[6], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[6][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
             coalesce(_marks[6][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[6]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[6][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
             coalesce(_marks[6][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[7]
           AND coalesce(_tenants[7], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[7][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
             coalesce(_marks[7][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[7]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[7][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
             coalesce(_marks[7][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[8]
           AND coalesce(_tenants[8], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[8][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
             coalesce(_marks[8][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[8]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[8][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
             coalesce(_marks[8][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[9]
           AND coalesce(_tenants[9], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[9][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
             coalesce(_marks[9][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[9]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[9][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
             coalesce(_marks[9][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[10]
           AND coalesce(_tenants[10], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[10][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
             coalesce(_marks[10][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[10]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[10][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
             coalesce(_marks[10][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[11]
           AND coalesce(_tenants[11], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[11][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
             coalesce(_marks[11][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[11]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[11][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
             coalesce(_marks[11][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[12]
           AND coalesce(_tenants[12], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[12][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
             coalesce(_marks[12][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[12]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[12][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
             coalesce(_marks[12][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[13]
           AND coalesce(_tenants[13], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[13][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
             coalesce(_marks[13][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[13]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[13][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
             coalesce(_marks[13][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[14]
           AND coalesce(_tenants[14], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[14][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
             coalesce(_marks[14][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[14]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[14][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
             coalesce(_marks[14][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[15]
           AND coalesce(_tenants[15], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[15][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
             coalesce(_marks[15][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[15]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[15][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
             coalesce(_marks[15][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[16]
           AND coalesce(_tenants[16], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[16][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
             coalesce(_marks[16][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[16]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[16][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
             coalesce(_marks[16][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = ANY (_tasks)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_every_4(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_every_4(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[2]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[3]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[4]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = ANY (_tasks)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_many(text, text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_many(_kind text, _tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange, OUT picked tid[], OUT spare bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  names text[];
  owners text[];
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
  found_owners text[];
  found_marks bigint[];
BEGIN
  picked := '{}';
  spare := 0;
  LOOP
    names := _tasks;
    owners := _tenants;
    marks := _marks;
    wanted := _limit - cardinality(picked);
    each := 1;
    last := NULL;
    LOOP
      WITH start AS (
        SELECT t.n, t.name, coalesce(owners[t.n], '') AS owner,
          coalesce(marks[t.n][1], -2147483649) AS priority, coalesce(marks[t.n][2], 0) AS micros,
          coalesce(marks[t.n][3], 0) AS id
        FROM unnest(names) WITH ORDINALITY AS t (name, n)
      ),
      read AS MATERIALIZED (
        SELECT s.n, s.name, s.owner, ARRAY[s.priority, s.micros, s.id] AS mark, r.*
        FROM start AS s CROSS JOIN LATERAL (
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = s.name
             AND s.owner = ''
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT (j.deliveries = 0 AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
          UNION ALL
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = s.name
             AND _kind = 'every'
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT (j.deliveries = 0 AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
          UNION ALL
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = s.owner
             AND j.task = s.name AND _kind = 'named'
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT (j.deliveries = 0 AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
        ) AS r
      ),
      best_of AS MATERIALIZED (
        SELECT u.* FROM (
          SELECT r.* FROM read AS r
          UNION ALL
          SELECT NULL, NULL, NULL, NULL, s.tid, s.priority, s.run_at, s.id
          FROM "windlass"._suspects(_kind, _tasks, _tenants, _suspects, _forbidden, after) AS s
        ) AS u ORDER BY u.priority, u.run_at, u.id LIMIT wanted
      ),
      branches AS (
        -- For all tenants one branch reads two indexes, and may be there twice.
        SELECT DISTINCT ON (d.n) d.n, d.name, d.owner, d.mark FROM best_of AS d
        WHERE d.n IS NOT NULL ORDER BY d.n
      )
      SELECT
        ARRAY(SELECT b.tid FROM best_of AS b),
        (SELECT ARRAY[b.priority, "windlass"._micros(b.run_at), b.id] FROM best_of AS b
         OFFSET wanted - 1),
        EXISTS (SELECT FROM best_of AS b WHERE b.n IS NOT NULL
                GROUP BY b.n HAVING count(*) >= each),
        (SELECT count(*) FROM read),
        (SELECT count(*) FROM best_of AS b WHERE b.n IS NULL),
        CASE WHEN each = 1 THEN ARRAY(SELECT b.name FROM branches AS b ORDER BY b.n) END,
        CASE WHEN each = 1 THEN ARRAY(SELECT b.owner FROM branches AS b ORDER BY b.n) END,
        CASE WHEN each = 1 THEN ARRAY(SELECT b.mark FROM branches AS b ORDER BY b.n) END
      INTO best, last, is_short, read, suspects, found_names, found_owners, found_marks;
      spare := spare + read;
      EXIT WHEN NOT is_short;
      IF each = 1 THEN
        names := found_names;
        owners := found_owners;
        marks := found_marks;
      END IF;
      each := greatest(4 * each, 5 * wanted / (4 * cardinality(names)));
    END LOOP;
    picked := picked || ARRAY(
      SELECT l.tid FROM unnest(best) AS b (tid)
      CROSS JOIN LATERAL (
        SELECT r.ctid AS tid FROM "windlass"._jobs AS r
        WHERE r.ctid = b.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
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
-- Name: _pick_named_1(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_named_1(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[1] AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT s.* FROM (
           SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name) WHERE t.name <> ''
         ) AS t CROSS JOIN LATERAL (
           SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
             AND (j.tenant, j.task) IN (
               SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT _suspects
         ) AS s ORDER BY s.priority, s.run_at, s.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_named_16(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_named_16(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[1] AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[2] AND j.task = _tasks[2]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[3] AND j.task = _tasks[3]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[4] AND j.task = _tasks[4]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[5]
           AND coalesce(_tenants[5], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[5][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
             coalesce(_marks[5][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[5] AND j.task = _tasks[5]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[5][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[5][2], 0) * interval '1 microsecond',
             coalesce(_marks[5][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[6]
           AND coalesce(_tenants[6], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[6][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
             coalesce(_marks[6][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[6] AND j.task = _tasks[6]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[6][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[6][2], 0) * interval '1 microsecond',
             coalesce(_marks[6][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[7]
           AND coalesce(_tenants[7], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[7][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
             coalesce(_marks[7][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[7] AND j.task = _tasks[7]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[7][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[7][2], 0) * interval '1 microsecond',
             coalesce(_marks[7][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[8]
           AND coalesce(_tenants[8], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[8][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
             coalesce(_marks[8][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[8] AND j.task = _tasks[8]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[8][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[8][2], 0) * interval '1 microsecond',
             coalesce(_marks[8][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[9]
           AND coalesce(_tenants[9], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[9][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
             coalesce(_marks[9][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[9] AND j.task = _tasks[9]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[9][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[9][2], 0) * interval '1 microsecond',
             coalesce(_marks[9][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[10]
           AND coalesce(_tenants[10], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[10][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
             coalesce(_marks[10][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[10] AND j.task = _tasks[10]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[10][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[10][2], 0) * interval '1 microsecond',
             coalesce(_marks[10][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[11]
           AND coalesce(_tenants[11], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[11][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
             coalesce(_marks[11][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[11] AND j.task = _tasks[11]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[11][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[11][2], 0) * interval '1 microsecond',
             coalesce(_marks[11][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[12]
           AND coalesce(_tenants[12], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[12][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
             coalesce(_marks[12][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[12] AND j.task = _tasks[12]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[12][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[12][2], 0) * interval '1 microsecond',
             coalesce(_marks[12][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[13]
           AND coalesce(_tenants[13], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[13][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
             coalesce(_marks[13][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[13] AND j.task = _tasks[13]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[13][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[13][2], 0) * interval '1 microsecond',
             coalesce(_marks[13][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[14]
           AND coalesce(_tenants[14], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[14][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
             coalesce(_marks[14][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[14] AND j.task = _tasks[14]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[14][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[14][2], 0) * interval '1 microsecond',
             coalesce(_marks[14][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[15]
           AND coalesce(_tenants[15], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[15][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
             coalesce(_marks[15][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[15] AND j.task = _tasks[15]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[15][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[15][2], 0) * interval '1 microsecond',
             coalesce(_marks[15][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[16]
           AND coalesce(_tenants[16], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[16][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
             coalesce(_marks[16][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[16] AND j.task = _tasks[16]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[16][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[16][2], 0) * interval '1 microsecond',
             coalesce(_marks[16][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT s.* FROM (
           SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name) WHERE t.name <> ''
         ) AS t CROSS JOIN LATERAL (
           SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
             AND (j.tenant, j.task) IN (
               SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT _suspects
         ) AS s ORDER BY s.priority, s.run_at, s.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;


--
-- Name: _pick_named_4(text[], text[], integer, integer, text[], bigint[], int8multirange); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._pick_named_4(_tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[], _batched int8multirange) RETURNS tid[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[1]
           AND coalesce(_tenants[1], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[1] AND j.task = _tasks[1]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[1][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[1][2], 0) * interval '1 microsecond',
             coalesce(_marks[1][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[2]
           AND coalesce(_tenants[2], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[2] AND j.task = _tasks[2]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[2][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[2][2], 0) * interval '1 microsecond',
             coalesce(_marks[2][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[3]
           AND coalesce(_tenants[3], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[3] AND j.task = _tasks[3]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[3][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[3][2], 0) * interval '1 microsecond',
             coalesce(_marks[3][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[4]
           AND coalesce(_tenants[4], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[4] AND j.task = _tasks[4]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[4][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[4][2], 0) * interval '1 microsecond',
             coalesce(_marks[4][3], 0))
           AND NOT (j.deliveries = 0 AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        (SELECT s.* FROM (
           SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name) WHERE t.name <> ''
         ) AS t CROSS JOIN LATERAL (
           SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
             AND (j.tenant, j.task) IN (
               SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT _suspects
         ) AS s ORDER BY s.priority, s.run_at, s.id LIMIT _suspects)
        UNION ALL
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM "windlass"._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT (r.deliveries = 0 AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
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
  tenants text[];
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
    WHERE j.ctid = due.tid AND j.state = 'scheduled'
    RETURNING j.tenant, j.queue, j.run_at, j.id
  )
  SELECT (SELECT count(*) FROM made), q.tenants, q.queues,
    (SELECT ARRAY["windlass"._micros(l.run_at), l.id] FROM made AS l
     ORDER BY l.run_at DESC, l.id DESC LIMIT 1)
  INTO count, tenants, queues, reached FROM (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT m.tenant, m.queue FROM made AS m WHERE m.queue IS NOT NULL) AS d
  ) AS q;
  IF count < _limit THEN
    reached := ARRAY["windlass"._micros(at), 9223372036854775807];
  END IF;
  entries := pg_stat_get_xact_tuples_returned('"windlass"._jobs_scheduled'::regclass) - before;
  IF queues IS NOT NULL THEN
    PERFORM "windlass"._ring(tenants, queues);
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
-- Name: _shown(windlass._jobs, text, windlass._job_state, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._shown(j windlass._jobs, worker text, state windlass._job_state, since timestamp with time zone) RETURNS windlass.job
    LANGUAGE sql STABLE
    RETURN ROW((j).id, (j).queue, (j).task, (j).priority, (j).run_at, CASE WHEN ((j).superseded OR (state = 'failed'::windlass._job_state)) THEN GREATEST((j).attempts, COALESCE((j).max_attempts, 25)) ELSE (j).attempts END, COALESCE((j).max_attempts, 25), (j).last_error, (j).created_at, since, (j).key, (j).claimed_at, worker, (j).revision, (j).flags, (j).payload, CASE state WHEN 'ready'::windlass._job_state THEN 'ready'::text WHEN 'waiting'::windlass._job_state THEN 'ready'::text WHEN 'failed'::windlass._job_state THEN 'failed'::text WHEN 'scheduled'::windlass._job_state THEN 'scheduled'::text WHEN 'completed'::windlass._job_state THEN 'completed'::text ELSE (state)::text END, NULLIF((j).tenant, ''::text))::windlass.job;


--
-- Name: _public(windlass._jobs, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._public(j windlass._jobs, worker text) RETURNS windlass.job
    LANGUAGE sql STABLE
    RETURN windlass._shown(j, worker, (j).state, (j).updated_at);


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
  PERFORM "windlass"._dissolve_batches(ARRAY(
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
                     WHEN windlass._is_owned(j.*, _refusal._token) THEN 'busy'::text
                     ELSE 'lost'::text
                 END AS "case"
            FROM windlass._jobs j
           WHERE (j.id = _refusal._id)), ( SELECT 'lost'::text
            FROM windlass._history h
           WHERE (h.id = _refusal._id)), 'missing'::text) AS "coalesce";
END;


--
-- Name: _register_schedules(text, json, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._register_schedules(_tenant text, _schedules json, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  INSERT INTO "windlass"._schedules AS s
    (tenant, identifier, schedule, known_since, seen_at, floor_at)
  SELECT _tenant, x.pair ->> 0, (x.pair ->> 1)::json, at, at, at
  FROM json_array_elements(_schedules) AS x (pair) ORDER BY x.pair ->> 0
  ON CONFLICT (tenant, identifier) DO UPDATE SET
    schedule = excluded.schedule, seen_at = excluded.seen_at;
  RETURN (
    SELECT json_agg("windlass"._schedule_row(s))::text FROM "windlass"._schedules AS s
    WHERE s.tenant = _tenant AND s.identifier IN (
      SELECT x.pair ->> 0 FROM json_array_elements(_schedules) AS x (pair)
    )
  );
END $$;


--
-- Name: _remove_job(text, text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._remove_job(_tenant text, _key text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._jobs
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  j "windlass"._jobs;
BEGIN
  SELECT k.* INTO j FROM "windlass"._jobs AS k
  WHERE k.key = _key AND k.tenant = _tenant AND k.state <> 'cancelled' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF j.state = 'running' THEN
    UPDATE "windlass"._jobs AS k SET
      key = NULL, superseded = true, updated_at = coalesce(_now, statement_timestamp())
    WHERE k.id = j.id RETURNING k.* INTO j;
  ELSE
    DELETE FROM "windlass"._jobs AS k WHERE k.id = j.id;
    PERFORM pg_notify('windlass:jobs', '') WHERE "windlass"._ended(
      ARRAY[j.id], ARRAY[j.tenant], nullif(ARRAY["windlass"._freed(j)], '{NULL}'));
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
    PERFORM "windlass"._dissolve_batches(ARRAY(
      SELECT b.base FROM "windlass"._batches AS b
      WHERE b.worker = number AND b.claimed_at < at - interval '1 s'
    ));
  END IF;
  PERFORM "windlass"._unbatch_owned(
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
-- Name: _resume(text, text, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._resume(_tenant text, _kind text, _name text) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM "windlass"._need_read_committed();
  PERFORM pg_advisory_xact_lock('5999473032045165895'::bigint);
  DELETE FROM "windlass"._paused AS p
  WHERE p.tenant = _tenant AND p.kind = _kind AND p.name = _name;
  IF _kind = 'queue' THEN
    PERFORM "windlass"._ring(ARRAY[_tenant], ARRAY[_name]);
  ELSE
    PERFORM FROM "windlass"._jobs AS j
    WHERE j.state = 'waiting' AND j.queue IS NULL AND j.task = _name AND j.tenant = _tenant
    ORDER BY j.key NULLS FIRST, j.tenant, j.id FOR NO KEY UPDATE;
    UPDATE "windlass"._jobs AS j SET state = 'ready'
    WHERE j.state = 'waiting' AND j.queue IS NULL AND j.task = _name AND j.tenant = _tenant;
    PERFORM "windlass"._ring(array_agg(_tenant), array_agg(w.queue)) FROM (
      SELECT DISTINCT j.queue FROM "windlass"._jobs AS j
      WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task = _name AND j.tenant = _tenant
    ) AS w;
  END IF;
  PERFORM pg_notify('windlass:jobs', '');
END $$;


--
-- Name: _resume_schedule(text, text, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._resume_schedule(_tenant text, _identifier text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF windlass._schedules
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE "windlass"._schedules AS s SET
    floor_at = CASE WHEN s.paused_at IS NULL THEN s.floor_at
      ELSE greatest(s.floor_at, coalesce(_now, clock_timestamp())) END,
    paused_at = NULL
  WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
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
  PERFORM "windlass"._dissolve_batches(ARRAY(
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
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
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
      PERFORM "windlass"._ring(ARRAY[j.tenant], ARRAY[j.queue]);
    END IF;
    PERFORM pg_notify('windlass:jobs', '');
    RETURN NEXT j;
  END LOOP;
END $$;


--
-- Name: _bells; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._bells (
    n bigint NOT NULL,
    queue text NOT NULL,
    tenant text DEFAULT ''::text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='1');


--
-- Name: _ring(text[], text[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._ring(_tenants text[], _queues text[]) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO windlass._bells (tenant, queue)  SELECT q.tenant,
             q.name
            FROM UNNEST(_ring._tenants, _ring._queues) q(tenant, name);
END;


--
-- Name: _row(windlass._jobs, text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._row(j windlass._jobs, worker text) RETURNS json
    LANGUAGE sql STABLE
    RETURN json_build_array((j).task, ((j).payload)::text, (j).queue, (j).max_attempts, (j).key, (j).priority, windlass._listed((j).flags), windlass._span((j).keep), ((j).meta)::text, (j).tenant, ((j).is_strict)::integer, (j).id, CASE (j).state WHEN 'waiting'::windlass._job_state THEN 'ready'::text ELSE ((j).state)::text END, windlass._micros((j).run_at), (j).attempts, (j).deliveries, (j).revision, (j).resets, ((j).suspect)::integer, ((j).superseded)::integer, ((j).cancel_requested)::integer, ((j).holds)::integer, worker, (j).token, windlass._micros((j).lease_until), (j).last_error, ((j).errors)::text, NULL::text, ((j).progress)::text, ((j).log)::text, windlass._micros((j).created_at), windlass._micros((j).updated_at), windlass._micros((j).finished_at), NULL::bigint);


--
-- Name: _schedule_row(windlass._schedules); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._schedule_row(s windlass._schedules) RETURNS json
    LANGUAGE sql STABLE
    RETURN json_build_array(((s).schedule)::text, windlass._micros((s).known_since), windlass._micros((s).seen_at), windlass._micros((s).floor_at), windlass._micros((s).last_at), windlass._micros((s).paused_at), (s).tenant);


--
-- Name: _seen(bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._seen(_ids bigint[], OUT bases bigint[], OUT batched int8multirange) RETURNS record
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
    INTO bases, batched
    FROM "windlass"._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span);
  END IF;
END $$;


--
-- Name: _settle(bigint[], bigint[], json[], double precision[], text, boolean, timestamp with time zone); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._settle(_ids bigint[], _tokens bigint[], _outputs json[], _keeps double precision[], _others text, _careful boolean, _now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET lock_timeout TO '20ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  ids bigint[] := _ids;
  tokens bigint[] := _tokens;
  outputs json[] := _outputs;
  keeps float8[] := _keeps;
  gone bigint[] := '{}';
  tenants text[];
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
      coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.token), '{}'),
      array_agg(l.output), array_agg(l.keep)
    INTO ids, tokens, outputs, keeps FROM (
      SELECT x.id, x.token, x.output, x.keep
      FROM unnest(_ids, _tokens, _outputs, _keeps) AS x (id, token, output, keep)
      JOIN "windlass"._jobs AS k ON k.id = x.id AND "windlass"._is_owned_in(k, x.token, bases)
      ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
    ) AS l;
  END IF;
  IF cardinality(ids) > 0 AND _keeps IS NULL THEN
    WITH done AS (
      DELETE FROM "windlass"._jobs AS k USING unnest(ids, tokens) AS x (id, token)
      WHERE k.id = x.id AND "windlass"._is_owned_in(k, x.token, bases)
      RETURNING k.id, k.tenant, k.queue
    )
    SELECT coalesce(array_agg(d.id), '{}'),
      array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
      array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, tenants, queues FROM done AS d;
  ELSIF cardinality(ids) > 0 THEN
    WITH done AS (
      DELETE FROM "windlass"._jobs AS k
      USING unnest(ids, tokens, outputs, keeps) AS x (id, token, output, keep)
      WHERE k.id = x.id AND "windlass"._is_owned_in(k, x.token, bases)
      RETURNING k.*, x.token AS own_token, x.output,
        coalesce("windlass"._span(k.keep), x.keep) AS kept,
        (k.state = 'ready')::integer AS more
    ),
    filed AS (
      INSERT INTO "windlass"._history (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, id, run_at, attempts, deliveries, revision, resets, token, last_error, errors, output, progress, log, created_at, finished_at, expires_at)
      SELECT (d).task, (d).payload, (d).queue, (d).max_attempts, (d).key, (d).priority, (d).flags, d.kept, (d).meta, (d).tenant, (d).is_strict, (d).id, (d).run_at, d.attempts + d.more, d.deliveries + d.more, (d).revision, (d).resets, d.own_token, (d).last_error, (d).errors, (d).output, (d).progress, (d).log, (d).created_at, at, at + make_interval(secs => d.kept)
      FROM done AS d WHERE d.kept > 0
    )
    SELECT coalesce(array_agg(d.id), '{}'),
      array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
      array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, tenants, queues FROM done AS d;
  END IF;
  IF gone <> '{}' THEN
    PERFORM "windlass"._ended(gone, tenants, queues);
  END IF;
  IF _others IS NULL AND cardinality(gone) = cardinality(_ids) THEN
    RETURN NULL;
  END IF;
  answers := ARRAY(
    SELECT CASE WHEN x.id = ANY (gone) THEN 'completed' ELSE "windlass"._refusal(x.id, x.token) END
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS x (id, token, place) ORDER BY x.place
  );
  IF _others IS NOT NULL THEN
    PERFORM "windlass"._unbatch_owned(array_agg(x.id), array_agg(x.token))
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
      SELECT unnest(w.tasks) AS name FROM "windlass"._workers AS w
      WHERE w.expires_at > at AND w.tenants IS NULL
    ) AS n ORDER BY n.name
  );
  low := '';
  FOREACH high IN ARRAY known || NULL::text LOOP
    LOOP
      next := "windlass"._next_task(low, high);
      EXIT WHEN next IS NULL OR cardinality(found_tasks) >= _most;
      IF "windlass"._is_stranded(next, at) THEN
        found_tasks := found_tasks || next;
      END IF;
      low := next;
    END LOOP;
    low := high;
  END LOOP;
  RETURN ARRAY(
    SELECT unnest(found_tasks)
    UNION
    SELECT s.task FROM (
      SELECT j.task FROM "windlass"._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task <> ALL (known)
      UNION
      SELECT j.task FROM "windlass"._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task <> ALL (known)
    ) AS s WHERE "windlass"._is_stranded(s.task, at)
    LIMIT _most
  );
END $$;


--
-- Name: _suspects(text, text[], text[], integer, text[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._suspects(_kind text, _tasks text[], _tenants text[], _most integer, _forbidden text[], _after bigint[]) RETURNS TABLE(tid tid, priority integer, run_at timestamp with time zone, id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF _most <= 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT u.* FROM (
    (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
     WHERE (_tenants = '{}' OR '' = ANY (_tenants))
       AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
         SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
         WHERE coalesce(b.tenant, '') = '')
       AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
         _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
       AND (j.flags && _forbidden) IS NOT TRUE
     ORDER BY j.priority, j.run_at, j.id LIMIT _most)
    UNION ALL
    (SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
     WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND _kind = 'every'
       AND j.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
       AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
         _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
       AND (j.flags && _forbidden) IS NOT TRUE
     ORDER BY j.priority, j.run_at, j.id LIMIT _most)
    UNION ALL
    (SELECT s.* FROM (
       SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name)
       WHERE t.name <> '' AND _kind = 'named'
     ) AS t CROSS JOIN LATERAL (
       SELECT j.ctid, j.priority, j.run_at, j.id FROM "windlass"._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
         AND (j.tenant, j.task) IN (
           SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
         AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
           _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id LIMIT _most
     ) AS s)
  ) AS u (tid, priority, run_at, id) ORDER BY u.priority, u.run_at, u.id LIMIT _most;
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
      holds = CASE
        WHEN k.superseded OR k.cancel_requested THEN false
        WHEN k.suspect AND k.resets + 1 >= _max_resets THEN k.is_strict AND k.queue IS NOT NULL
        ELSE k.holds
      END,
      superseded = false, cancel_requested = false, updated_at = _at,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = ANY (_ids)
    RETURNING k.*
  LOOP
    IF j.finished_at IS NOT NULL THEN
      PERFORM "windlass"._ended(
        ARRAY[j.id], ARRAY[j.tenant], CASE WHEN j.queue IS NOT NULL THEN ARRAY[j.queue] END);
    ELSIF j.queue IS NOT NULL THEN
      PERFORM "windlass"._ring(ARRAY[j.tenant], ARRAY[j.queue]);
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

CREATE FUNCTION windlass._unbatch(_ids bigint[], _with_running boolean, OUT locked bigint[], OUT tenants text[], OUT queues text[]) RETURNS record
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
    array_agg(l.tenant) FILTER (WHERE l.freed IS NOT NULL),
    array_agg(l.freed) FILTER (WHERE l.freed IS NOT NULL),
    bool_or(l.state = 'ready' AND l.deliveries = 0 AND l.key IS NULL AND l.queue IS NULL)
  INTO locked, tenants, queues, is_any FROM (
    SELECT k.id, k.state, k.deliveries, k.key, k.queue, k.tenant,
      CASE WHEN k.state = 'ready' OR k.holds THEN k.queue END AS freed
    FROM "windlass"._jobs AS k
    WHERE k.id = ANY (_ids) AND (_with_running OR k.state <> 'running')
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  ) AS l;
  IF is_any THEN
    PERFORM "windlass"._need_read_committed();
    PERFORM "windlass"._take_out(locked);
  END IF;
END $$;


--
-- Name: _unbatch_owned(bigint[], bigint[]); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._unbatch_owned(_ids bigint[], _tokens bigint[]) RETURNS void
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
  -- Wait for rows that an open transaction has locked.
  PERFORM "windlass"._unbatch(ARRAY(
    SELECT k.id FROM "windlass"._jobs AS k WHERE k.state = 'running' AND k.worker = ANY (numbers)
    UNION ALL
    SELECT b.id FROM "windlass"._in_batches AS b WHERE b.worker = ANY (numbers)
  ), true);
  PERFORM "windlass"._dissolve_batches(ARRAY(
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
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.ordinality AS place, _numbers[r.ordinality] AS number, r.due AS run_at,
      r.key IS NULL OR row_number() OVER (PARTITION BY r.key, r.tenant ORDER BY r.ordinality) = 1
        AS is_first,
      "windlass"._due_state(r.due, r.queue, _at) AS state, c.*
    FROM unnest(_requests) WITH ORDINALITY AS r
    CROSS JOIN LATERAL (SELECT "windlass"._accepted(r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep, r.tenant), "windlass"._sound(r.payload), r.queue, r.max_attempts, r.key, coalesce(r.priority, 0), r.flags, r.keep, r.meta, coalesce(r.tenant, ''), coalesce(r.is_strict, false)) AS c (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict)
  ),
  written AS (
    INSERT INTO "windlass"._jobs AS j (id, task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    SELECT g.number, g.task, g.payload, g.queue, g.max_attempts, g.key, g.priority, g.flags, g.keep, g.meta, g.tenant, g.is_strict, g.run_at, _at, _at, g.state
    FROM given AS g
    WHERE g.is_first
    ORDER BY g.key NULLS FIRST, g.tenant, g.place
    ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state <> 'cancelled' DO UPDATE SET
      task = excluded.task, queue = excluded.queue, max_attempts = excluded.max_attempts, priority = excluded.priority, flags = excluded.flags, keep = excluded.keep, meta = excluded.meta, tenant = excluded.tenant, is_strict = excluded.is_strict, payload = "windlass"._joined(j.payload, excluded.payload),
      attempts = 0, resets = 0, suspect = false, holds = false, last_error = NULL, errors = NULL, progress = NULL, log = NULL, finished_at = NULL,
      revision = j.revision + 1, updated_at = _at,
      run_at = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0 THEN j.run_at
        ELSE excluded.run_at
      END,
      state = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0
          THEN "windlass"._due_state(j.run_at, excluded.queue, _at)
        ELSE excluded.state
      END
    WHERE j.state <> 'running' AND (j.state <> 'ready' OR j.queue IS NULL) AND NOT j.holds
    RETURNING j.id, j.key, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT
    (SELECT array_agg(CASE WHEN g.key IS NULL THEN g.number ELSE w.id END ORDER BY g.place)
     FROM given AS g
     LEFT JOIN written AS w ON w.key = g.key AND w.tenant = g.tenant AND g.is_first),
    q.tenants, q.queues, n.is_due, n.is_soon
  INTO ids, tenants, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + interval '300 s') AS is_soon
    FROM written AS w
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM written AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM "windlass"._announce(tenants, queues, is_due, is_soon);
  RETURN ids;
END $$;


--
-- Name: _write_batch(bigint[], integer, bigint, timestamp with time zone, bigint); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._write_batch(_ids bigint[], _spans integer, _worker bigint, _at timestamp with time zone, _base bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids int8multirange := "windlass"._spans(_ids);
BEGIN
  IF _spans + (SELECT count(*) FROM unnest(ids)) > 4000 THEN
    RETURN false;
  END IF;
  INSERT INTO "windlass"._batches (base, worker, claimed_at, ids) VALUES (_base, _worker, _at, ids);
  RETURN true;
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
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.ordinality AS place, _numbers[r.ordinality] AS number, r.due AS run_at,
      "windlass"._due_state(r.due, r.queue, _at) AS state, c.*
    FROM unnest(_requests) WITH ORDINALITY AS r
    CROSS JOIN LATERAL (SELECT "windlass"._accepted(r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep, r.tenant), "windlass"._sound(r.payload), r.queue, r.max_attempts, r.key, coalesce(r.priority, 0), r.flags, r.keep, r.meta, coalesce(r.tenant, ''), coalesce(r.is_strict, false)) AS c (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict)
  ),
  written AS (
    INSERT INTO "windlass"._jobs AS j (id, task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    SELECT g.number, g.task, g.payload, g.queue, g.max_attempts, g.key, g.priority, g.flags, g.keep, g.meta, g.tenant, g.is_strict, g.run_at, _at, _at, g.state
    FROM given AS g
    ORDER BY g.key NULLS FIRST, g.tenant, g.place
    RETURNING j.id, j.key, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT
    _numbers,
    q.tenants, q.queues, n.is_due, n.is_soon
  INTO ids, tenants, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + interval '300 s') AS is_soon
    FROM written AS w
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM written AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM "windlass"._announce(tenants, queues, is_due, is_soon);
  RETURN ids;
END $$;


--
-- Name: _write_rows(tid[], boolean, bigint, text, timestamp with time zone, bigint, jsonb); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass._write_rows(_taken tid[], _is_batch boolean, _number bigint, _worker text, _at timestamp with time zone, _base bigint, _longer jsonb) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  leases text;
BEGIN
  WITH given AS (
    UPDATE "windlass"._jobs AS j SET
      state = 'running', token = _base + j.id, worker = _number, claimed_at = _at,
      attempts = j.attempts + 1, deliveries = j.deliveries + 1,
      lease_until = _at + make_interval(secs => (_longer ->> j.task)::float8),
      lease = (_longer ->> j.task)::float8
    WHERE j.ctid = ANY (_taken) AND NOT (_is_batch AND "windlass"._fits_batch(j, _longer))
    RETURNING j.*
  )
  SELECT string_agg("windlass"._lease(g, _base, 0, to_json(_worker)), ',') INTO leases
  FROM given AS g;
  RETURN leases;
END $$;


--
-- Name: add_job(text, json, text, timestamp with time zone, integer, text, integer, text[], text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.add_job(identifier text, payload json DEFAULT '{}'::json, queue_name text DEFAULT NULL::text, run_at timestamp with time zone DEFAULT now(), max_attempts integer DEFAULT NULL::integer, job_key text DEFAULT NULL::text, priority integer DEFAULT 0, flags text[] DEFAULT NULL::text[], job_key_mode text DEFAULT 'replace'::text) RETURNS windlass.job
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  tenant text := "windlass"._own_tenant();
  is_strict boolean := "windlass"._own_strict();
  new_id bigint;
BEGIN
  payload := "windlass"._fitting(payload, "windlass"._largest());
  flags := "windlass"._plain(flags);
  priority := coalesce(priority, 0);
  SELECT "windlass"._add_job(ROW(d.due, d.mode, identifier, payload, queue_name, max_attempts, job_key, priority, flags, NULL, NULL, tenant, is_strict)::"windlass"._request, clock_timestamp()) INTO new_id
  FROM (VALUES (
    coalesce("windlass"._finite(run_at), now()), coalesce(job_key_mode, 'replace')
  )) AS d (due, mode);
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
  own text := "windlass"._own_tenant();
  own_strict boolean := "windlass"._own_strict();
  ids bigint[];
BEGIN
  IF EXISTS (SELECT FROM unnest(specs) AS s WHERE s.job_key IS NOT NULL) THEN
    ids := "windlass"._add_keyed(
      ARRAY(
        SELECT ROW(d.due, d.mode, s.identifier, s.payload, s.queue_name, s.max_attempts, s.job_key, s.priority, s.flags, NULL, NULL, s.tenant, s.is_strict)::"windlass"._request
        FROM unnest(specs) AS u
        CROSS JOIN LATERAL (
          SELECT u.identifier, "windlass"._fitting(u.payload, most) AS payload, u.queue_name,
            u.max_attempts, u.job_key, coalesce(u.priority, 0) AS priority,
            CASE WHEN u.flags IS NOT NULL THEN "windlass"._plain(u.flags) END AS flags,
            own AS tenant, own_strict AS is_strict
        ) AS s
        CROSS JOIN LATERAL (SELECT coalesce("windlass"._finite(u.run_at), now()) AS due, mode) AS d
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
      CASE WHEN s.flags IS NOT NULL THEN "windlass"._plain(s.flags) END AS flags,
      own AS tenant, own_strict AS is_strict
    FROM unnest(specs) AS s
  ),
  added AS (
    INSERT INTO "windlass"._jobs AS j (task, payload, queue, max_attempts, key, priority, flags, keep, meta, tenant, is_strict, run_at, created_at, updated_at, state)
    SELECT "windlass"._accepted(g.identifier, g.queue_name, NULL, g.max_attempts, g.flags, NULL, g.tenant), "windlass"._sound(g.payload), g.queue_name, g.max_attempts, NULL, g.priority, g.flags, NULL, NULL, g.tenant, g.is_strict, g.due, at, at, "windlass"._due_state(g.due, g.queue_name, at)
    FROM given AS g
    RETURNING j.*
  )
  SELECT ("windlass"._public(a, NULL)).* FROM added AS a
  WHERE (
    SELECT "windlass"._announce(
      array_fill(own, ARRAY[cardinality(q.names)]), q.names,
      bool_or(x.state <> 'scheduled'),
      bool_or(x.state = 'scheduled' AND x.run_at <= at + interval '300 s')
    ) FROM added AS x CROSS JOIN (
      SELECT ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting') AS names
    ) AS q GROUP BY q.names
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
    "windlass"._of_tenant(job_ids, nullif("windlass"._own_tenant(), '')),
    ROW('complete', NULL, NULL, NULL, NULL, NULL)::"windlass"._edit,
    statement_timestamp()
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
     (windlass._public(j.*, NULL::text)).state AS state,
     (windlass._public(j.*, NULL::text)).tenant AS tenant
    FROM windlass._unlock(force_unlock_workers.worker_ids, 5) j(id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta, errors, tenant, is_strict, holds);
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
    "windlass"._of_tenant(job_ids, nullif("windlass"._own_tenant(), '')),
    ROW('fail', told, NULL, NULL, NULL, NULL)::"windlass"._edit,
    statement_timestamp()
  ) AS c;
END $$;


--
-- Name: remove_job(text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.remove_job(job_key text) RETURNS windlass.job
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN (SELECT windlass._public(j.*, (SELECT w.name FROM windlass._workers w WHERE (w.id = j.worker))) AS _public FROM windlass._remove_job(windlass._own_tenant(), remove_job.job_key) j(id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta, errors, tenant, is_strict, holds));


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
    "windlass"._of_tenant(job_ids, nullif("windlass"._own_tenant(), '')),
    ROW('reschedule', NULL, "windlass"._finite(run_at), priority, attempts, max_attempts)
      ::"windlass"._edit,
    statement_timestamp()
  ) AS c;
END $$;


--
-- Name: set_tenant(text); Type: FUNCTION; Schema: windlass; Owner: -
--

CREATE FUNCTION windlass.set_tenant(tenant text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF length(tenant) > 128 THEN
    RAISE EXCEPTION 'Tenant must have at most 128 characters, not %', length(tenant)
      USING ERRCODE = '22023';
  END IF;
  PERFORM set_config('windlass.tenant', coalesce(tenant, ''), true);
END $$;


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
-- Name: _functions; Type: TABLE; Schema: windlass; Owner: -
--

CREATE TABLE windlass._functions (
    name text NOT NULL,
    header text NOT NULL,
    digest text NOT NULL,
    program text NOT NULL
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
    name text NOT NULL,
    tenant text DEFAULT ''::text NOT NULL
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
    j.finished_at,
    NULLIF(j.tenant, ''::text) AS tenant
   FROM ((windlass._jobs j
     LEFT JOIN windlass._in_batches b ON (((b.id = j.id) AND (j.state = 'ready'::windlass._job_state) AND (j.deliveries = 0))))
     LEFT JOIN windlass._workers w ON ((w.id = COALESCE(j.worker, b.worker))));


--
-- Data for Name: _batches; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._batches (base, worker, claimed_at, ids) FROM stdin;
1878407225976949924	1	2026-01-01 00:00:00+00	{[1,26)}
\.


--
-- Data for Name: _bells; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._bells (n, queue, tenant) FROM stdin;
5	strict	acme
\.


--
-- Data for Name: _clocks; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._clocks (machine, zero_at, since, noted_at) FROM stdin;
b50ee874-6a8e-4735-9d4d-8cfcff5faa5e	2025-12-31 23:43:20+00	1000	2026-01-01 00:00:00+00
\.


--
-- Data for Name: _functions; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._functions (name, header, digest, program) FROM stdin;
_refuse	d7d086ce49e00d1740b1e9d394d8a6ca	4939024cfbe5ac6c3214fb8fd150bf8c	0.1.0
_accepted	7b63aebe83dcb9b5be797ccd8a62b945	e2b25151e534a834968fa6b72afd2da3	0.1.0
_add_alike	5735f8f457287620515454ccf0e567f1	c8805637df597ec29ac32c92f3aee635	0.1.0
_add_job	20c95586d44c00c5ebc4161827d46a20	4f31530b9fbacaf254c183d568a0ac04	0.1.0
_add_jobs	5112724088f7f34c5f9e02f2f0a9162f	880e17890a897230eef21b9836a16413	0.1.0
_add_keyed	b8fff5c12fc81f6c4d9b833418463559	bc252bc2a33d3f1acc66dd5cfef2f825	0.1.0
_admit	d33269417c9da55bde1599b7f4f00264	e6d6339ff6372bddf928bcd7021bc413	0.1.0
_all_tasks	88deaa48b9064c49b418440a18893556	a3f0b16bf9698d8dd5352563fe99bcd6	0.1.0
_announce	15852e7ade159e56fb8588748586033c	7e34ef9a106a2c6e9e316766eeb569e8	0.1.0
_appended	3ac24b41046f1aad781edee81ddbbf10	a592c0075f3e618133a20f065ea2b111	0.1.0
_as_completed	75efbfc9343c6a8381a7cf589c2d705d	e790bc27b5ab24970f1bd5fa9b0600d7	0.1.0
_as_running	957a561a18871ec4ee38c901e27f7d25	28006bb860fa86d1e3e08ddc39b462e5	0.1.0
_beat	e4cf77b415ee24558aa3d89cefee9530	6fb97a13baeb70c65708e0527e391ed9	0.1.0
_branches	d8f188864729ced96d0e265f8c63d2b2	a0a304def3508e4a37c126709116eeac	0.1.0
_cancel_jobs	81bd33db824d81e4d03e9cb2a2ee6250	a050afcb3748e09ca35ba40ee7676094	0.1.0
_change	54193e56deb3546ac487b6b0e466817f	1ef0029d527d873e3311687bee0872ab	0.1.0
_change_open	d66f00a7e67dbba7167640f599026c6a	7a5ed8462fbb67ff0f56ce66dc4101a7	0.1.0
_check	fe414ec06019657650d479ab5aa83c72	6baad897177b0bd2f0233a8f90f1d62a	0.1.0
_choose	032cdd6c51d094b5aa2d33330068e62d	85617e8754e45523b72a11cd9293605b	0.1.0
_claim	12323a90f938a7e36de4e8c9fffec1aa	0969af45ed09bb572564e615ac38fc46	0.1.0
_claimed	6d1aedafa99f68c761310e22c98ca4c4	49c125348dac2dd4623cad792bd3f58e	0.1.0
_complete_jobs	6077edb7e4a69e68cbe446880994fbb9	efebfe034751bdbd945430558524ff1d	0.1.0
_delete_failed	8518529ccfe196c5e44f52c1053b5f85	627611b7b0357e01d058c92c1dabe8ce	0.1.0
_dissolve_batches	aff693c976487ce9c021c4fcd09c2a0b	caf0da57d53bbc02f313993c1ea792c5	0.1.0
_drop_ended	163a5cdf21c7aa618c1a665595efeab7	b6cfbb20a45e8b835f798d37920764cc	0.1.0
_due_state	5a3f7cc58bd150e6bf99bfbc7e1b324a	67f32116aa32ab5c7ae13d4309a08783	0.1.0
_end	3e75cb1189b59acb547d8125bfb280b0	96127d61e9f26c68f02100e7be620e1d	0.1.0
_end_admission	08e86d4db22331ecef2a61c3b5530c88	fe268dfa8d0e7c9e3119986c592e73db	0.1.0
_ended	3d94acd778e4bf2450a2d996127d3092	f6a5ad406d796ccb7b1c16cb45dde45a	0.1.0
_enqueue	880074b29521f5e800eac9ba0c12bd8e	8349d1358d0342c399cf6333c030adc4	0.1.0
_exchange_heads	f0df07fb9451240076b80b48942ccf68	604c9b9ccf5fedd6fda7aa37b012ae8c	0.1.0
_expire	61d96e8e2c10e2d8aacaf39223d17b7c	f747ba654bf0233b802d5207b24326af	0.1.0
_fail_jobs	013fbbdf8ac26946a8fd917bb73c1186	32799edeebda936c37bb4a05ec5ccf16	0.1.0
_span	831d6db6cc5c494c0c1ada2148a6ae30	a6d381a0fe70f1435e3a11be04e2729f	0.1.0
_file	686c3e0bf367cd9fa96211cb5813ee37	2ae66196498c80389fe2ba46ad53f403	0.1.0
_finite	4e59db97180b0fbd2284d2238a068548	436880f617a80a6dbad8bcabbd8b66d0	0.1.0
_fire	17399f42d806ea26fa04e29bde2a86ce	6791d21493e91cd7de0440d925f7ae29	0.1.0
_fits_batch	0c87b28b928b65b63b0330dfe31fa45d	8fca53d0cddd763852c3d3e0d774d727	0.1.0
_too_large	d6c41cf8b27f1b7aca8e02f3f3184a53	896bc48c7900c1225896c2ef39d9e747	0.1.0
_fitting	ad91c255d22adf8ea924fcb929a6ea4e	884b9346795e433573671be7aa76b475	0.1.0
_follow_clock	b2ca749fce2f435dd870f5a790d7acd5	b942970bb40d4991a5b6bfcf959f2355	0.1.0
_forget_schedule	7e939d1cc46098e2e70d6b896f17adeb	2cafb3bd0283801b5cdcdf095e0b7db3	0.1.0
_freed	298d3a8537bf1c572719ef59670b3ccd	6ee59fdfe1372b56cdc6ad16ddce8911	0.1.0
_listed	e033f0c516c30e18cea9db71c361f038	cb5100e0ff528151b51c31d7f56a111d	0.1.0
_micros	b689e308cd9eb73777748761438360a0	d2bfa5016d3c66c595a433c9a7ba1086	0.1.0
_history_row	b2f850f36b844a7790f57e970cf5c1ba	2f214f15f4a40bd1ce77bc569a3011d9	0.1.0
_in_batches	7a9ffb98f3f937d8da6ff17dc56d7683	62da1d1e0ce052307b730e8b2fafe802	0.1.0
_introduce	c58dcd7640e57e630c175096875a852f	e5383598cc4ffefe357c6bbb1acde61d	0.1.0
_is_simple	a905a30a241905d92143b24f7238b422	fe3696b97eb0246f7278da4ebb062dba	0.1.0
_is_open	c603091567872713d8c9657f4f554676	5644bad085ab2f294faff171b339c3f2	0.1.0
_is_owned_in	99997567c446e582dcb725c41489ddfe	111c24b08d453daff07bb3e710cee118	0.1.0
_is_owned	a8b7fa5de6e4405c1557e8c667a72959	d24a785dd81d4e658d1ab2bd4a7edce5	0.1.0
_is_stranded	bcbaec25f9e6ad9e5ce52970b6e95cf1	2f5a031c3f6172e75e0e71679aeaef9f	0.1.0
_joined	eb3a1facbb5f2576cdb011205668a84b	b11738092a46376515b8a19d1d5145be	0.1.0
_keep_back	227df4c4cad8d9860b7ceefdc55abee1	2ce15ddcbe609aa57081e01a18ef92dd	0.1.0
_kept_bells	b51ef10d2eb6809a2d4186054151c86a	a4bc93eb7786c0cbec3a54dae1507726	0.1.0
_largest	e3a3e8fbe0c8680d4f45542d741e0c97	0884f3798b850c45613288787fdff10a	0.1.0
_quick_micros	e5d89d46cb8c5f35083ecbe07e279eff	b1c5608c6d0c949a2b03d6612d9f7cf6	0.1.0
_lease	ffc8f4c7bb937bf71f27cc83ffb21107	9bb3e4bf08677bd366960eea2dea03d8	0.1.0
_lock_worker	fd498fd0009ddc722c1ecc8f2d702df6	ad32bb6f334b653ae061c6581f85919f	0.1.0
_look_again	2da25e2eae1660e5880d6b18db2582a6	71439eef0e79912a2deac58570dc7a6c	0.1.0
_make_ready	bc9f4b089cf08ee7309fc6d93ad62ff9	eb3620b8f3d009aebd5cd45e83034274	0.1.0
_move_leases	a062c1b9293b8f2d80d1e4b2fc6cceb4	0e8e6329be856223548b2503efe353b3	0.1.0
_need_read_committed	1ade3c7c2c45e86062ce09f915b0b403	79474d657eeb9225d8add3262467afa7	0.1.0
_next_due	1681d1487d8990053987bcf380d5bd60	0edf98f9512aa25857df3e3cad3453e4	0.1.0
_next_ready_task	ccffe8c467a58e72d06f1b12afd98ea9	c2292fded9c035495c3722a5b190a3d2	0.1.0
_next_task	1bf6a100163eacdb3026091511d4b910	9d83749ad988685161526bc8651d48a4	0.1.0
_next_waiting	0e87389c3768751ee845c1372b2f0ffd	599231f37904564192a582ef81932143	0.1.0
_note	53404e024f48cb285e9d135be3119faa	75bec7efa1142e8994c1c65c42947041	0.1.0
_of_tenant	93f3dafc50c91b9e066c6d3a23f08c53	1242a4d12f66f34facf67c43bb41a433	0.1.0
_own_strict	df92148b9782242d47470b23f29e7daa	580dc37abc7e238c01aa12ce893be003	0.1.0
_own_tenant	dcc7cb5efc6c0a620946ffeeee3caf44	ec50c0f36e5a0c6363aa8d099f6fb4ef	0.1.0
_park	e235e569d20ee45d65fe20a38444b21c	ecc41bc53dc8241bb77f50027b757892	0.1.0
_pause	2d72aae835d4af9af4c401c9f7713bb9	018d40cbe8334329159f2205544d93ca	0.1.0
_pause_schedule	27f6f202e33a529f37ffee66fbf54d10	db8136a3c5a83eda6d63f58c66c0f6af	0.1.0
_pick	377f799457501ed2578132462bd32174	cd58f61e91b9c1c72469cc45af83844b	0.1.0
_pick_default_1	e4470d8a365d2985390530b30381643a	cf704499139b5b79f3dae3afb9e33fca	0.1.0
_pick_default_16	8d680423ceefe2881abe8ec172ca4e6d	cef54f2bca4c7f62cfc01991650f2919	0.1.0
_pick_default_4	a5e80aa301c53a9c7bf4afcb8a94cc3e	ba1dd51555cc0d24a7b91c7b10aed8bd	0.1.0
_pick_every_1	82d5da1b2bd20436e9481daad138a43e	9e16e6ce1488465aaed64f07c980462c	0.1.0
_pick_every_16	3369cb7ceb81f5d66f52575d71e08d83	d8fb60c75aedcf691a53bb0ca45a111d	0.1.0
_pick_every_4	7667d8318d58c869b628bbe59b0b4859	2ac76a608cf504045f4d9cc36885a201	0.1.0
_pick_many	2db45b613fa089a67ed963fff2f799f4	bca51824051f21d6e27d75678efde36c	0.1.0
_pick_named_1	98ea61b5147f25672af367dcfa9242b1	e2aef87c34b6378b982ffc6384c575d8	0.1.0
_pick_named_16	23663dae5b896cd3e7d8cc21a2f32190	6df6e6f93e13a6264af2bbe576f9e620	0.1.0
_pick_named_4	7553e3ccced4f8b291dcc500d13c6ee0	d8f54b0da15c985d7b5a49a2df8c29b5	0.1.0
_plain	28b8a6ff5a5b000900487f656ebd8b67	299dbbd8d3562abf56589b8f064b8300	0.1.0
_promote	65ce780554d5e30d16c2cf367552bf89	6237cad503ef46a6ee4da01d3a39df90	0.1.0
_prune	72d3194c1adfab754c717f4b4453bffc	1c8ab6214d7ab3c18f205ff7ca2d3edc	0.1.0
_shown	6a88fcaaf6b75b714c36820717c5aad4	b5e9a6babca193f4083bcde8c13503e6	0.1.0
_public	04506e778b88c4f869d11898ff52f437	3cab4d70fc34e0e74a849bb041904ad4	0.1.0
_put_back	ea22ba1441f5a859d114ffba91e8551b	61efbf46f01d1e4246a17abc0b779c0b	0.1.0
_reap	a31125cbe5ef3401a63118356f676e2c	0a2130b215862e812ce78ec82ab8eb13	0.1.0
_refusal	e9dca186c99af5694dac2d60789d5606	2752afa4fd8f81dc62c7cecd8453149b	0.1.0
_register_schedules	7dc93519d5fccfd27b4fe53f0ab7a81b	fb45b07136e73ff8c72a48d5c6df06b3	0.1.0
_remove_job	d9283454c4265339ab85637f0d0be00f	7e5111128fbf52e3888d97cdc2678a9a	0.1.0
_renew	cb581fd5edd886885c1e9f988cd5f670	1534e2d6b6735fb2d3b9ce75f9586d61	0.1.0
_reschedule_jobs	ad8790da2ff7283be7031f0e6df63ffd	6bc4bc6eff28926a87ce021afcc8a29d	0.1.0
_resume	266bf72b35757d9dbb89d745014c587e	fcd1b3ead4466bc1d98c41b61538c71e	0.1.0
_resume_schedule	f03021c23d11192c069aff7124090fe7	1dbc7df0d6c07194d82253699e23b7b7	0.1.0
_retire	d6cbbb739b00f045363be6c766dfe213	67314ec4b95d5baa4a9f944a501b96b4	0.1.0
_retry_jobs	a138827c3640e9b6bf7d5b25bd3467d3	ed6a7873c9245d2ba6dc3e74040d601e	0.1.0
_ring	82cb8997a9a08fd79b1ddf721230c5e0	da441346dbf845f8836fae9efc0391fc	0.1.0
_row	784479b0ee428799cd68e2efa4dc55ae	36638246e7890907ca3741b7b9c828df	0.1.0
_schedule_row	fa9b7e45b0c6175070007bc3dbd6bc54	5c23a5f173b2fa941426867b079fea0c	0.1.0
_seen	3816c5c864213a7b32b3a1a7de5c379c	030f69946100f2a1803af67d01050364	0.1.0
_settle	b431be5c69db09b32e3fe846316da952	fd939c40f241091680c6a13537ee18c0	0.1.0
_walked	7ba1c61310a2f7d32ec6dea7063de518	cf689adbdc70cb7f357bc949baf93901	0.1.0
_sound	afd516886cddf23933cc8630757a8a07	a50c8ac38b0664df106d1b9d7f23265b	0.1.0
_spans	e6e07f720186a0df747524adaaf1642d	7e08d082ad8b3e1f682b0f98ffaa9579	0.1.0
_stranded	2305cefb66c3381ed3ece87235017bb0	4d50d21c4ed365ce3450b7c0b9a5abe2	0.1.0
_suspects	4e7aba0e7e6232cdc66454cf3635c0a1	59e4298c8c9b13e851c38858f4375b92	0.1.0
_take_back	26f76d38eac7b777a7fdeff30f690a22	4b030f752556c8945805ec5c464371f0	0.1.0
_take_out	b3e1e70be6dcc9e02ba07bbd572c6138	83d602f64ccd067b926d4e5ede916123	0.1.0
_unbatch	93a1844e989a06ecda332ef05f0fef35	73f57be9938e3f887f9ff365fcbf3c72	0.1.0
_unbatch_owned	41c365b7c8b3a2fe2d3b161aca11f8cb	39424298ea939aaac771af1934bd7afb	0.1.0
_unlock	3bae299b361430984abda71a61e05ab4	d197c2f60bbe526f0fb8f6f8b7f033f5	0.1.0
_watch_clock	4e42f46f8b0979e1aa959a751253260c	94858389ecd8027023998d76b1dd9324	0.1.0
_write_any	870177ef5689001d67440a77788141a8	fb86a335b3aa44209686b90d6d63bce3	0.1.0
_write_batch	388b65e7d50ac5371a8a9ec86606369c	2e167ccb913de5c2c895e847117753fb	0.1.0
_write_new	9fd91e74897dfc96ee228150562d07ce	6a962e5a8cee32a0392dca1766851341	0.1.0
_write_rows	68ad3f42aead488f2bb9c1bf615f63e9	e1430bce7c89967e583af64e7961080e	0.1.0
add_job	1b2ec5622772b1f0b195eaeee5585f7d	138999adc94d9ea5325eea98f13bd11f	0.1.0
add_jobs	94b94423214a1e7abc021fe09eea05e3	7a2a68887bd247583218ecf6ddc20b4e	0.1.0
complete_jobs	cd687b407053ba6fc96dd365d5b27ba9	24041cc91870c1216ce1de6e66c121db	0.1.0
force_unlock_workers	7eed3db8392fc967fb72361ab4aff50b	79c21efbe5bc3ceb695e3aa5dd8f465b	0.1.0
jobs	f197dd84b867bba22f45a2862bad9229	a09f60a4b1bb6f4fe6a345a16b22838d	0.1.0
permanently_fail_jobs	e8a07cb4016125fab2c515e4aace75f1	27ff5b8247f9a6b5195ee7f1c15da689	0.1.0
remove_job	00722789cf4690115246bafd9736e95b	df18d0a77710f7b497cb3d6990528eb1	0.1.0
reschedule_jobs	84efa083d3491e887aa930c616acfb62	1095e51f32a7b5857a7642c3d328d3c2	0.1.0
set_tenant	2c9ce00ee1300bb4e0155d710324b562	224998e8fe599e82aabc2103ed8f838c	0.1.0
\.


--
-- Data for Name: _history; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._history (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts, deliveries, revision, resets, max_attempts, task, payload, key, queue, flags, last_error, output, progress, log, meta, errors, tenant, is_strict) FROM stdin;
32	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2035-12-30 00:00:00+00	4604746151966885642	315360000	0	1	1	0	0	\N	kept	{}	done	\N	\N	\N	{"ok":true}	\N	\N	\N	\N		f
\.


--
-- Data for Name: _jobs; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._jobs (id, run_at, created_at, updated_at, token, worker, claimed_at, lease_until, lease, finished_at, keep, state, priority, attempts, deliveries, revision, resets, max_attempts, suspect, superseded, cancel_requested, task, payload, key, queue, flags, last_error, progress, log, meta, errors, tenant, is_strict, holds) FROM stdin;
1	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":0}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
2	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":1}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
3	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":2}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
4	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":3}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
5	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":4}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
6	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":5}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
7	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":6}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
8	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":7}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
9	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":8}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
10	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":9}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
11	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":10}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
12	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":11}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
13	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":12}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
14	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":13}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
15	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":14}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
16	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":15}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
17	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":16}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
18	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":17}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
19	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":18}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
20	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":19}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
21	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":20}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
22	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":21}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
23	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":22}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
24	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":23}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
25	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	plain	{"n":24}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
26	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	ready	{}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
27	2026-01-02 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	0	0	0	0	\N	f	f	f	scheduled	{}	later	\N	\N	\N	\N	\N	{"trace": "x"}	\N		f	f
29	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	line	{}	\N	q	\N	\N	\N	\N	\N	\N		f	f
30	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	1	0	\N	f	f	f	keyed	{"v":2}	k	\N	\N	\N	\N	\N	\N	\N		f	f
33	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	2026-01-01 00:00:00+00	\N	failed	0	1	1	0	0	1	f	f	f	failed	{}	broken	\N	\N	no luck	\N	\N	\N	[[1, 1767225600000000, "w", "no luck"]]		f	f
34	2026-01-02 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	1	1	0	0	\N	f	f	f	retry	{}	\N	\N	\N	later	\N	\N	\N	[[1, 1767225600000000, "w", "later"]]		f	f
35	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	2026-01-01 00:00:00+00	\N	cancelled	0	0	0	0	0	\N	f	f	f	cancelled	{}	gone	\N	\N	\N	\N	\N	\N	\N		f	f
36	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	1	0	0	\N	t	f	f	suspect	{}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
38	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	running	{}	\N	busy	\N	\N	\N	\N	\N	\N		f	f
37	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	4217437138616967321	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	f	f	running	{}	\N	busy	\N	\N	\N	\N	\N	\N		f	f
44	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	line	{}	\N	q	\N	\N	\N	\N	\N	\N	acme	f	f
39	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	359598944810076987	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	f	t	stopping	{}	\N	\N	\N	\N	[0.5,"half"]	[{"at":1}]	\N	\N		f	f
40	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	277135848682498225	2	2026-01-01 00:00:00+00	\N	\N	\N	\N	running	0	1	1	0	0	\N	f	t	f	replaced	{}	\N	\N	\N	\N	\N	\N	\N	\N		f	f
41	2026-01-01 01:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	0	0	0	0	\N	f	f	f	replaced	{}	r	\N	\N	\N	\N	\N	\N	\N		f	f
42	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	ready	{}	\N	\N	\N	\N	\N	\N	\N	\N	acme	f	f
43	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	ready	0	0	0	0	0	\N	f	f	f	keyed	{}	k	\N	\N	\N	\N	\N	\N	\N	acme	f	f
46	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	line	{}	\N	strict	\N	\N	\N	\N	\N	\N	acme	f	f
45	2026-01-02 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	scheduled	0	1	1	0	0	\N	f	f	f	retry	{}	\N	strict	\N	later	\N	\N	\N	[[1, 1767225600000000, "w", "later"]]	acme	t	t
28	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	\N	waiting	0	0	0	0	0	\N	f	f	f	line	{}	\N	q	\N	\N	\N	\N	\N	\N		f	f
\.


--
-- Data for Name: _migrations; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._migrations (id, name, breaking, ts) FROM stdin;
9	0009_create_tables	t	2026-11-18 04:20:44.395217+00
10	0010_keep_errors_and_meta	t	2026-11-18 04:20:44.395217+00
11	0011_add_tenants	t	2026-11-18 04:20:44.395217+00
\.


--
-- Data for Name: _paused; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._paused (kind, name, tenant) FROM stdin;
task	ready	
queue	q	
task	nothing	acme
\.


--
-- Data for Name: _schedules; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._schedules (identifier, schedule, known_since, seen_at, floor_at, last_at, paused_at, tenant) FROM stdin;
nightly	{"identifier":"nightly","task":"nightly","pattern":"0 4 * * *","fill":86400.0,"payload":{"a":1}}	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	
nightly	{"identifier":"nightly","task":"nightly","pattern":"0 4 * * *","fill":86400.0,"payload":{"a":1}}	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	\N	acme
p	{"identifier":"p","task":"poll","pattern":"*/5 * * * *"}	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	2026-01-01 00:00:00+00	\N	2026-01-01 00:00:00+00	
\.


--
-- Data for Name: _workers; Type: TABLE DATA; Schema: windlass; Owner: -
--

COPY windlass._workers (id, name, expires_at, lease, refused, tasks, tenants) FROM stdin;
1	batch-worker	2026-01-01 00:01:00+00	60	\N	\N	\N
2	w	2026-01-01 00:01:00+00	60	\N	\N	\N
\.


--
-- Name: _bells_n_seq; Type: SEQUENCE SET; Schema: windlass; Owner: -
--

SELECT pg_catalog.setval('windlass._bells_n_seq', 5, true);


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
-- Name: _clocks _clocks_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._clocks
    ADD CONSTRAINT _clocks_pkey PRIMARY KEY (machine);


--
-- Name: _functions _functions_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._functions
    ADD CONSTRAINT _functions_pkey PRIMARY KEY (name);


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
    ADD CONSTRAINT _paused_pkey PRIMARY KEY (tenant, kind, name);


--
-- Name: _schedules _schedules_pkey; Type: CONSTRAINT; Schema: windlass; Owner: -
--

ALTER TABLE ONLY windlass._schedules
    ADD CONSTRAINT _schedules_pkey PRIMARY KEY (tenant, identifier);


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
-- Name: _bells_default; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _bells_default ON windlass._bells USING btree (n) WHERE (tenant = ''::text);


--
-- Name: _bells_others; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _bells_others ON windlass._bells USING btree (n) WHERE (tenant > ''::text);


--
-- Name: _bells_tenant; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _bells_tenant ON windlass._bells USING btree (tenant, n) WHERE (tenant <> ''::text);


--
-- Name: _history_expires; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _history_expires ON windlass._history USING btree (expires_at);


--
-- Name: _history_tenant; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _history_tenant ON windlass._history USING btree (tenant, id) WHERE (tenant <> ''::text);


--
-- Name: _jobs_active; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _jobs_active ON windlass._jobs USING btree (queue, tenant) WHERE ((queue IS NOT NULL) AND (state = ANY (ARRAY['ready'::windlass._job_state, 'running'::windlass._job_state])));


--
-- Name: _jobs_ended; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ended ON windlass._jobs USING btree (state, finished_at) WHERE (state = ANY (ARRAY['failed'::windlass._job_state, 'cancelled'::windlass._job_state]));


--
-- Name: _jobs_holding; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_holding ON windlass._jobs USING btree (queue, tenant, priority, run_at, id) WHERE holds;


--
-- Name: _jobs_key; Type: INDEX; Schema: windlass; Owner: -
--

CREATE UNIQUE INDEX _jobs_key ON windlass._jobs USING btree (key, tenant) WHERE ((key IS NOT NULL) AND (state <> 'cancelled'::windlass._job_state));


--
-- Name: _jobs_parked; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_parked ON windlass._jobs USING btree (task, tenant) WHERE ((state = 'waiting'::windlass._job_state) AND (queue IS NULL));


--
-- Name: _jobs_ready; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ready ON windlass._jobs USING btree (task, priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND (NOT suspect) AND (tenant = ''::text));


--
-- Name: _jobs_ready_others; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ready_others ON windlass._jobs USING btree (task, priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND (NOT suspect) AND (tenant > ''::text));


--
-- Name: _jobs_ready_tenant; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_ready_tenant ON windlass._jobs USING btree (tenant, task, priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND (NOT suspect) AND (tenant <> ''::text));


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

CREATE INDEX _jobs_suspect ON windlass._jobs USING btree (priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND suspect AND (tenant = ''::text));


--
-- Name: _jobs_suspect_others; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_suspect_others ON windlass._jobs USING btree (priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND suspect AND (tenant > ''::text));


--
-- Name: _jobs_suspect_tenant; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_suspect_tenant ON windlass._jobs USING btree (tenant, priority, run_at, id) WHERE ((state = 'ready'::windlass._job_state) AND suspect AND (tenant <> ''::text));


--
-- Name: _jobs_tenant; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_tenant ON windlass._jobs USING btree (tenant, id) WHERE (tenant <> ''::text);


--
-- Name: _jobs_waiting; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_waiting ON windlass._jobs USING btree (queue, tenant, priority, run_at, id) WHERE ((state = 'waiting'::windlass._job_state) AND (queue IS NOT NULL));


--
-- Name: _jobs_waiting_task; Type: INDEX; Schema: windlass; Owner: -
--

CREATE INDEX _jobs_waiting_task ON windlass._jobs USING btree (task, tenant, queue, priority, run_at, id) WHERE ((state = 'waiting'::windlass._job_state) AND (queue IS NOT NULL));


--
-- PostgreSQL database dump complete
--


