-- breaking: yes
-- Settling: how deliveries end, and what running jobs say of themselves. Rows that somebody's open
-- transaction holds are answered as busy, and nobody waits for them.

-- Why a token owns no running job: the job is there (or in the history), or it is nowhere; or it
-- is still owned, and only held by somebody's transaction at the moment.
CREATE FUNCTION {schema}._refusal(_id bigint, _token bigint) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT coalesce(
    (SELECT CASE WHEN {schema}._is_held(j, _token) THEN 'busy' ELSE 'lost' END
     FROM {schema}._jobs AS j WHERE j.id = _id),
    (SELECT 'lost' FROM {schema}._history AS h WHERE h.id = _id),
    'missing');
END;

-- How a delivery ended, as `windlass.store.records` says it. Instants are microseconds.
CREATE TYPE {schema}._outcome AS (
  kind text,
  output json,
  keep float8,
  error text,
  delay float8,
  run_at bigint,
  max_attempts integer,
  final boolean,
  payload json
);

-- A completed row goes to the history, for as long as it says.
CREATE FUNCTION {schema}._file(j {schema}._jobs, _output json, _at timestamptz) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._history
    (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts, deliveries,
     revision, resets, max_attempts, task, payload, key, queue, flags, last_error, output,
     progress, log, meta)
  VALUES
    ((j).id, (j).run_at, (j).created_at, _at,
     _at + make_interval(secs => {schema}._span((j).keep)), (j).token, (j).keep, (j).priority, (j).attempts, (j).deliveries, (j).revision, (j).resets,
     (j).max_attempts, (j).task, (j).payload, (j).key, (j).queue, (j).flags, (j).last_error,
     _output, (j).progress, (j).log, (j).meta);
END;

-- End one delivery whose row the caller holds. The state the job is in then.
CREATE FUNCTION {schema}._end(j {schema}._jobs, o {schema}._outcome, at timestamptz)
RETURNS {schema}._job_state LANGUAGE plpgsql AS $$
DECLARE
  new_state {schema}._job_state;
  due timestamptz := j.run_at;
  kept float8 := coalesce({schema}._span(j.keep), o.keep);
BEGIN
  IF o.kind = 'complete' THEN
    DELETE FROM {schema}._jobs AS k WHERE k.id = j.id;
    IF kept > 0 THEN
      j.keep := kept;
      PERFORM {schema}._file(j, o.output, at);
    END IF;
    new_state := 'completed';
  ELSE
    IF o.kind = 'cancel' THEN
      new_state := 'cancelled';
    ELSIF o.kind = 'release' THEN
      j.attempts := j.attempts - 1;
      IF j.superseded THEN
        new_state := 'failed';
        j.last_error := {superseded};
      ELSIF j.cancel_requested THEN
        new_state := 'cancelled';
      ELSE
        new_state := {schema}._due_state(at, j.queue, at);
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
        due := least({last_instant}, coalesce(
          timestamptz 'epoch' + o.run_at * interval '1 microsecond',
          at + make_interval(secs => o.delay)
        ));
        new_state := {schema}._due_state(due, j.queue, at);
      END IF;
    END IF;
    UPDATE {schema}._jobs AS k SET
      state = new_state, run_at = due, attempts = j.attempts, suspect = j.suspect,
      payload = j.payload, last_error = j.last_error, updated_at = at,
      finished_at = CASE WHEN new_state IN ('failed', 'cancelled') THEN at END,
      superseded = false, cancel_requested = false,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = j.id;
    IF new_state IN ('ready', 'waiting') THEN
      PERFORM pg_notify({channel}, '');
    ELSIF new_state = 'scheduled' AND due <= at + {soon} THEN
      PERFORM pg_notify({channel}, 'due');
    END IF;
  END IF;
  IF j.queue IS NOT NULL THEN
    INSERT INTO {schema}._bells (queue) VALUES (j.queue);
  END IF;
  RETURN new_state;
END $$;

-- End deliveries, each if and only if its token owns the job. `_ids` and `_tokens` are completed;
-- `_keeps` are the seconds to keep each for where it says nothing itself, and `_outputs` their
-- outputs (both NULL where none is to be kept); `_others` are {id, token} and an `_outcome`, done
-- one by one. Answers NULL where all were completed, else an array with the state or the refusal
-- of each of `_ids` and then of `_others`.
--
-- The quick way deletes without asking who holds the rows, and fails with lock_not_available
-- after a moment if somebody does; then the caller asks again with `_careful`, which skips those.
CREATE FUNCTION {schema}._settle(
  _ids bigint[], _tokens bigint[], _outputs json[], _keeps float8[], _others text,
  _careful boolean, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '20ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  -- A variable, so that no plan made while the table was small walks the index of running jobs
  -- once for each job.
  running {schema}._job_state := 'running';
  ready {schema}._job_state := 'ready';
  bases bigint[];
  held bigint[] := _ids;
  held_tokens bigint[] := _tokens;
  outputs json[] := _outputs;
  keeps float8[] := _keeps;
  gone bigint[] := '{}';
  queues text[];
  answers text[] := '{}';
  other record;
  j {schema}._jobs;
BEGIN
  bases := ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE EXISTS (
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
      JOIN {schema}._jobs AS k ON k.id = x.id AND (
        k.state = running AND k.token = x.token
        OR k.state = ready AND k.deliveries = 0 AND x.token - x.id = ANY (bases)
      )
      ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
    ) AS h;
  END IF;
  IF cardinality(held) > 0 AND _keeps IS NULL THEN
    WITH done AS (
      DELETE FROM {schema}._jobs AS k USING unnest(held, held_tokens) AS x (id, token)
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
      DELETE FROM {schema}._jobs AS k
      USING unnest(held, held_tokens, outputs, keeps) AS x (id, token, output, keep)
      WHERE k.id = x.id AND (
        k.state = running AND k.token = x.token
        OR k.state = ready AND k.deliveries = 0 AND x.token - x.id = ANY (bases)
      )
      RETURNING k.*, x.token AS held_token, x.output,
        coalesce({schema}._span(k.keep), x.keep) AS kept,
        (k.state = ready)::integer AS more
    ),
    filed AS (
      INSERT INTO {schema}._history
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
    INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(queues) AS q;
  END IF;
  IF _others IS NULL AND cardinality(gone) = cardinality(_ids) THEN
    RETURN NULL;
  END IF;
  answers := ARRAY(
    SELECT CASE WHEN x.id = ANY (gone) THEN 'completed' ELSE {schema}._refusal(x.id, x.token) END
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS x (id, token, place) ORDER BY x.place
  );
  IF _others IS NOT NULL THEN
    PERFORM {schema}._unbatch_held(array_agg(x.id), array_agg(x.token))
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint);
  END IF;
  FOR other IN
    SELECT x.id, x.token, json_populate_record(NULL::{schema}._outcome, x.outcome) AS outcome
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint, outcome json)
  LOOP
    SELECT k.* INTO j FROM {schema}._jobs AS k
    WHERE k.id = other.id AND k.token = other.token AND k.state = 'running'
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      answers := answers || {schema}._end(j, other.outcome, at)::text;
    ELSE
      answers := answers || {schema}._refusal(other.id, other.token);
    END IF;
  END LOOP;
  RETURN array_to_json(answers)::text;
END $$;

-- What a running job says of itself. The last `_most` entries of its log are kept.
CREATE FUNCTION {schema}._note(
  _id bigint, _token bigint, _progress json, _entry json, _most integer,
  _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  PERFORM {schema}._unbatch_held(ARRAY[_id], ARRAY[_token]);
  SELECT k.* INTO j FROM {schema}._jobs AS k
  WHERE k.id = _id AND k.token = _token AND k.state = 'running' FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN {schema}._refusal(_id, _token);
  END IF;
  UPDATE {schema}._jobs AS k SET
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
