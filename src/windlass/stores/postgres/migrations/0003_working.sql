-- breaking: yes
-- What workers call: claim, settle, renew, and the upkeep they do for one another. Each function is
-- one atomic step and never waits for a row that somebody's open transaction holds.

-- A sign of life: the worker owns what it holds until `_lease` seconds from `_at`. Nothing is
-- written while its lease ends later than `_enough` and not later than it should. Its number.
CREATE FUNCTION {schema}._beat(
  _worker text, _lease float8, _enough float8, _at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  found_id bigint;
  until timestamptz := _at + make_interval(secs => _lease);
BEGIN
  SELECT w.id INTO found_id FROM {schema}._workers AS w
  WHERE w.name = _worker
    AND w.expires_at > _at + make_interval(secs => _enough) AND w.expires_at <= until;
  IF NOT FOUND THEN
    INSERT INTO {schema}._workers AS w (name, expires_at) VALUES (_worker, until)
    ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at
    RETURNING w.id INTO found_id;
  END IF;
  RETURN found_id;
END $$;

-- Answer the doorbells: in each queue that rang and has no active job, the best waiting one
-- becomes ready. Only here does a queued job become ready, one caller at a time, behind the latch.
-- Bells are read before the queues are looked at: a job that leaves after the look has rung a bell
-- that this call has not taken. Only bells after `_after` are looked for; `last` is the last taken.
CREATE FUNCTION {schema}._admit(
  _after bigint, OUT refused boolean, OUT admitted integer, OUT last bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  rung text[];
  ready text[];
BEGIN
  refused := false;
  admitted := 0;
  last := _after;
  IF NOT EXISTS (SELECT FROM {schema}._bells AS b WHERE b.n > _after) THEN
    RETURN;
  END IF;
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    refused := true;
    RETURN;
  END IF;
  WITH taken AS (
    DELETE FROM {schema}._bells AS b USING (
      SELECT c.ctid AS tid FROM {schema}._bells AS c WHERE c.n > _after ORDER BY c.n LIMIT 2000
    ) AS first
    WHERE b.ctid = first.tid
    RETURNING b.n, b.queue
  )
  SELECT coalesce(max(t.n), _after), array_agg(DISTINCT t.queue) FILTER (WHERE NOT EXISTS (
    SELECT FROM {schema}._paused AS p WHERE p.kind = 'queue' AND p.name = t.queue
  ))
  INTO last, rung FROM taken AS t;
  IF rung IS NULL THEN
    RETURN;
  END IF;
  WITH heads AS MATERIALIZED (
    SELECT h.tid FROM unnest(rung) AS q (name)
    LEFT JOIN LATERAL (
      SELECT true AS is_busy FROM {schema}._jobs AS a
      WHERE a.queue = q.name AND a.queue IS NOT NULL AND a.state IN ('ready', 'running') LIMIT 1
    ) AS a ON true
    CROSS JOIN LATERAL (
      SELECT w.ctid AS tid FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS h
    WHERE a.is_busy IS NULL
  ),
  made AS (
    UPDATE {schema}._jobs AS j SET state = 'ready' FROM heads
    WHERE j.ctid = heads.tid AND j.state = 'waiting'
    RETURNING j.queue
  )
  SELECT array_agg(m.queue), count(*) INTO ready, admitted FROM made AS m;
  -- Where every waiting job is held by somebody's transaction the bell must ring again.
  INSERT INTO {schema}._bells (queue)
  SELECT q.name FROM unnest(rung) AS q (name)
  LEFT JOIN LATERAL (
    SELECT true AS is_busy FROM {schema}._jobs AS a
    WHERE a.queue = q.name AND a.queue IS NOT NULL AND a.state IN ('ready', 'running') LIMIT 1
  ) AS a ON true
  CROSS JOIN LATERAL (
    SELECT FROM {schema}._jobs AS w
    WHERE w.state = 'waiting' AND w.queue = q.name
    ORDER BY w.priority, w.run_at, w.id LIMIT 1
  ) AS h
  WHERE a.is_busy IS NULL;
END $$;

-- Queues whose ready head this worker may not run, while a job behind it is one that it may: put
-- that job in the head's place. Looks at 200 queues per task, after `_after` by name; says where
-- to go on.
CREATE FUNCTION {schema}._exchange_heads(
  _tasks text[], _suspects integer, _forbidden text[], _after text,
  OUT heads bigint[], OUT candidates bigint[], OUT next_after text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  swap record;
  held record;
BEGIN
  heads := '{}';
  candidates := '{}';
  next_after := '';
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    next_after := _after;
    RETURN;
  END IF;
  FOR swap IN
    WITH RECURSIVE step (task, queue, n) AS (
      SELECT t.name, (
        SELECT w.queue FROM {schema}._jobs AS w
        WHERE w.state = 'waiting' AND w.task = t.name AND w.queue > _after
        ORDER BY w.queue LIMIT 1
      ), 1
      FROM unnest(_tasks) AS t (name)
      UNION ALL
      SELECT s.task, (
        SELECT w.queue FROM {schema}._jobs AS w
        WHERE w.state = 'waiting' AND w.task = s.task AND w.queue > s.queue
        ORDER BY w.queue LIMIT 1
      ), s.n + 1
      FROM step AS s WHERE s.queue IS NOT NULL AND s.n < 200
    )
    SELECT DISTINCT ON (s.queue)
      s.queue, h.id AS head, c.id AS candidate,
      (SELECT min(x.queue) FROM step AS x WHERE x.n = 200) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM {schema}._jobs AS h
      WHERE h.queue = s.queue AND h.queue IS NOT NULL AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      h.task <> ALL (_tasks) OR (h.suspect AND _suspects = 0) OR h.flags && _forbidden
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.task = s.task AND w.queue = s.queue AND h.id IS NOT NULL
        AND (_suspects > 0 OR NOT w.suspect)
        AND (w.flags && _forbidden) IS NOT TRUE
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '');
    CONTINUE WHEN swap.candidate IS NULL;
    SELECT j.id INTO held FROM {schema}._jobs AS j
    WHERE j.id = swap.candidate AND j.state = 'waiting' FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.id = (
      SELECT k.id FROM {schema}._jobs AS k
      WHERE k.id = swap.head AND k.state = 'ready' FOR NO KEY UPDATE SKIP LOCKED
    );
    CONTINUE WHEN NOT FOUND;
    UPDATE {schema}._jobs AS j SET state = 'ready' WHERE j.id = swap.candidate;
    heads := heads || swap.head;
    candidates := candidates || swap.candidate;
  END LOOP;
END $$;

-- Heads whose places were taken by jobs that then were not claimed get them back.
CREATE FUNCTION {schema}._put_back(_heads bigint[], _candidates bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  swap record;
BEGIN
  FOR swap IN
    SELECT x.head, x.candidate FROM unnest(_heads, _candidates) AS x (head, candidate)
    JOIN {schema}._jobs AS j ON j.id = x.candidate AND j.state = 'ready'
  LOOP
    UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.id = swap.candidate;
    UPDATE {schema}._jobs AS j SET state = 'ready' WHERE j.id = swap.head;
  END LOOP;
END $$;

-- The leases of these running jobs as JSON, in the order of `windlass.store.records.Lease`.
CREATE FUNCTION {schema}._lease(j {schema}._jobs, worker text) RETURNS json
LANGUAGE sql STABLE
RETURN json_build_array(
  (j).id, (j).token, worker, (j).task, (j).payload::text, (j).attempts, (j).deliveries,
  (j).max_attempts, (j).priority, {schema}._micros((j).run_at), (j).key, (j).queue, (j).flags,
  (j).revision, (j).resets, (j).suspect, (j).keep, {schema}._micros((j).created_at),
  {schema}._micros((j).updated_at), (j).last_error);

-- Take claimable jobs in (priority, run_at, id) order. A delivery's token is its job's id added
-- to `_base`, which the caller chose at random for this claim: if the answer is lost, `_claimed`
-- tells by it what was taken.
--
-- One ordered branch per task, merged: nothing is read that is not returned, but for one row per
-- task. `_marks` gives per task the place to start after, `_bell` the same for the bells: where
-- index entries of claimed jobs cannot be removed yet (an old snapshot is open) they pile up before
-- it. `entries` is how many index entries were read, so that the caller can tell.
CREATE FUNCTION {schema}._claim(
  _worker text, _tasks text[], _limit integer, _suspects integer, _lease float8, _base bigint,
  _longer json, _forbidden text[], _past_heads boolean, _after text, _marks json,
  _bell bigint, _now timestamptz DEFAULT NULL,
  OUT leases text, OUT taken integer, OUT is_refused boolean, OUT next_after text,
  OUT next_bell bigint, OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  admission record;
  exchange record;
  branches text;
  query text;
  before bigint := pg_stat_get_xact_tuples_returned({ready_index}::regclass)
    + pg_stat_get_xact_tuples_returned({bells_index}::regclass);
BEGIN
  taken := 0;
  next_after := _after;
  number := {schema}._beat(_worker, _lease, _lease * 2 / 3, at);
  IF EXISTS (SELECT FROM {schema}._paused) THEN
    _tasks := ARRAY(
      SELECT t FROM unnest(_tasks) AS t
      WHERE NOT EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task' AND p.name = t)
    );
  END IF;
  admission := {schema}._admit(_bell);
  is_refused := admission.refused;
  next_bell := admission.last;
  IF _past_heads THEN
    exchange := {schema}._exchange_heads(_tasks, _suspects, _forbidden, _after);
    next_after := exchange.next_after;
  END IF;
  IF cardinality(_tasks) = 0 OR _limit <= 0 THEN
    entries := 0;
    RETURN;
  END IF;
  IF cardinality(_tasks) <= 64 THEN
    SELECT string_agg(format(
      '(SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j'
      ' WHERE j.state = ''ready'' AND NOT j.suspect AND j.task = $1[%s]%s%s'
      ' ORDER BY j.priority, j.run_at, j.id)',
      i,
      CASE WHEN _marks ->> _tasks[i] IS NOT NULL THEN format(
        ' AND (j.priority, j.run_at, j.id) > (%s, %L::timestamptz, %s)',
        (_marks -> _tasks[i] ->> 0)::integer,
        timestamptz 'epoch' + (_marks -> _tasks[i] ->> 1)::bigint * interval '1 microsecond',
        (_marks -> _tasks[i] ->> 2)::bigint) END,
      CASE WHEN cardinality(_forbidden) > 0 THEN ' AND (j.flags && $2) IS NOT TRUE' END
    ), ' UNION ALL ') INTO branches
    FROM generate_series(1, cardinality(_tasks)) AS i;
  ELSE
    branches := 'SELECT b.* FROM unnest($1) AS t (name) CROSS JOIN LATERAL ('
      'SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j'
      ' WHERE j.state = ''ready'' AND NOT j.suspect AND j.task = t.name'
      ' AND (j.flags && $2) IS NOT TRUE'
      ' ORDER BY j.priority, j.run_at, j.id LIMIT $4) AS b';
  END IF;
  IF _suspects > 0 THEN
    branches := branches || ' UNION ALL (SELECT j.ctid, j.priority, j.run_at, j.id'
      ' FROM {schema}._jobs AS j WHERE j.state = ''ready'' AND j.suspect AND j.task = ANY ($1)'
      ' AND (j.flags && $2) IS NOT TRUE'
      ' ORDER BY j.priority, j.run_at, j.id LIMIT $3)';
  END IF;
  query := 'WITH picked AS MATERIALIZED ('
    'SELECT l.tid FROM (SELECT u.* FROM (' || branches || ') AS u'
    ' ORDER BY u.priority, u.run_at, u.id) AS c CROSS JOIN LATERAL ('
    'SELECT r.ctid AS tid FROM {schema}._jobs AS r WHERE r.ctid = c.tid AND r.state = ''ready'''
    ' FOR NO KEY UPDATE SKIP LOCKED) AS l LIMIT $4'
    '), given AS ('
    'UPDATE {schema}._jobs AS j SET state = ''running'', token = $5 + j.id, worker = $6,'
    ' claimed_at = $7, attempts = j.attempts + 1, deliveries = j.deliveries + 1,'
    ' lease_until = $7 + make_interval(secs => ($8 ->> j.task)::float8)'
    ' FROM picked WHERE j.ctid = picked.tid RETURNING j.*'
    ') SELECT json_agg({schema}._lease(given, $9) ORDER BY given.priority, given.run_at,'
    ' given.id)::text, count(*)::integer FROM given';
  EXECUTE query INTO leases, taken
  USING _tasks, _forbidden, _suspects, _limit, _base, number, at, _longer, _worker;
  entries := pg_stat_get_xact_tuples_returned({ready_index}::regclass)
    + pg_stat_get_xact_tuples_returned({bells_index}::regclass) - before;
  IF _past_heads THEN
    PERFORM {schema}._put_back(exchange.heads, exchange.candidates);
  END IF;
  IF admission.admitted > taken THEN
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;

-- What claims with these bases took, if they happened at all.
CREATE FUNCTION {schema}._claimed(_worker text, _bases bigint[]) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT json_agg({schema}._lease(j, _worker) ORDER BY j.priority, j.run_at, j.id)::text
  FROM {schema}._jobs AS j
  WHERE j.state = 'running' AND j.token - j.id = ANY (_bases)
    AND j.worker = (SELECT w.id FROM {schema}._workers AS w WHERE w.name = _worker);
END;

-- Why a token owns no running job: the job is there (or in the history), or it is nowhere; or it
-- is still owned, and only held by somebody's transaction at the moment.
CREATE FUNCTION {schema}._refusal(_id bigint, _token bigint) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT coalesce(
    (SELECT CASE WHEN j.state = 'running' AND j.token = _token THEN 'busy' ELSE 'lost' END
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
    ((j).id, (j).run_at, (j).created_at, _at, _at + make_interval(secs => (j).keep), (j).token,
     (j).keep, (j).priority, (j).attempts, (j).deliveries, (j).revision, (j).resets,
     (j).max_attempts, (j).task, (j).payload, (j).key, (j).queue, (j).flags, (j).last_error,
     _output, (j).progress, (j).log, (j).meta);
END;

-- End one delivery whose row the caller holds. The state the job is in then.
CREATE FUNCTION {schema}._end(j {schema}._jobs, o {schema}._outcome, at timestamptz)
RETURNS {schema}._job_state LANGUAGE plpgsql AS $$
DECLARE
  new_state {schema}._job_state;
  due timestamptz := j.run_at;
  kept float8 := coalesce(j.keep, o.keep);
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
        due := coalesce(
          timestamptz 'epoch' + o.run_at * interval '1 microsecond',
          at + make_interval(secs => o.delay)
        );
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
    END IF;
  END IF;
  IF j.queue IS NOT NULL THEN
    INSERT INTO {schema}._bells (queue) VALUES (j.queue);
  END IF;
  RETURN new_state;
END $$;

-- End deliveries, each if and only if its token owns the job. `_ids` and `_tokens` are completed;
-- `_outputs` has an object {id, output, keep} for each of them that is to be kept; `_others` are
-- {id, token} and an `_outcome`, done one by one. Answers NULL where all were completed, else an
-- array with the state or the refusal of each of `_ids` and then of `_others`.
--
-- The quick way deletes without asking who holds the rows, and fails with lock_not_available
-- after a moment if somebody does; then the caller asks again with `_careful`, which skips those.
CREATE FUNCTION {schema}._settle(
  _ids bigint[], _tokens bigint[], _outputs text, _others text, _careful boolean,
  _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '20ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  held bigint[] := _ids;
  held_tokens bigint[] := _tokens;
  gone bigint[] := '{}';
  queues text[];
  answers text[] := '{}';
  other record;
  j {schema}._jobs;
BEGIN
  IF _careful THEN
    SELECT coalesce(array_agg(h.id), '{}'), coalesce(array_agg(h.token), '{}')
    INTO held, held_tokens FROM (
      SELECT k.id, k.token FROM unnest(_ids, _tokens) AS x (id, token)
      JOIN {schema}._jobs AS k ON k.id = x.id AND k.token = x.token AND k.state = 'running'
      ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
    ) AS h;
  END IF;
  IF cardinality(held) > 0 AND _outputs IS NULL THEN
    WITH done AS (
      DELETE FROM {schema}._jobs AS k USING unnest(held, held_tokens) AS x (id, token)
      WHERE k.id = x.id AND k.token = x.token AND k.state = 'running'
      RETURNING k.id, k.queue
    )
    SELECT coalesce(array_agg(d.id), '{}'), array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, queues FROM done AS d;
  ELSIF cardinality(held) > 0 THEN
    WITH done AS (
      DELETE FROM {schema}._jobs AS k USING unnest(held, held_tokens) AS x (id, token)
      WHERE k.id = x.id AND k.token = x.token AND k.state = 'running'
      RETURNING k.*
    ),
    filed AS (
      INSERT INTO {schema}._history
        (id, run_at, created_at, finished_at, expires_at, token, keep, priority, attempts,
         deliveries, revision, resets, max_attempts, task, payload, key, queue, flags,
         last_error, output, progress, log, meta)
      SELECT
        d.id, d.run_at, d.created_at, at, at + make_interval(secs => c.keep), d.token, c.keep,
        d.priority, d.attempts, d.deliveries, d.revision, d.resets, d.max_attempts, d.task,
        d.payload, d.key, d.queue, d.flags, d.last_error, x.output, d.progress, d.log, d.meta
      FROM done AS d
      JOIN json_to_recordset(_outputs::json) AS x (id bigint, output json, keep float8)
        ON x.id = d.id
      CROSS JOIN LATERAL (SELECT coalesce(d.keep, x.keep) AS keep) AS c
      WHERE c.keep > 0
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

-- ── leases ──

-- Which of these leases are lost, and why; whose jobs should stop.
CREATE FUNCTION {schema}._check(_ids bigint[], _tokens bigint[]) RETURNS TABLE
  (id bigint, answer text)
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT x.id, CASE
    WHEN j.state = 'running' AND j.token = x.token THEN 'cancel'
    WHEN h.id IS NOT NULL THEN 'already_completed'
    WHEN j.id IS NULL THEN 'not_found'
    WHEN j.state IN ('completed', 'failed', 'cancelled') THEN 'already_completed'
    ELSE 'taken_by_another_worker'
  END
  FROM unnest(_ids, _tokens) AS x (id, token)
  LEFT JOIN {schema}._jobs AS j ON j.id = x.id
  LEFT JOIN {schema}._history AS h ON h.id = x.id
  WHERE j.id IS NULL OR j.token IS DISTINCT FROM x.token OR j.state <> 'running'
    OR j.cancel_requested;
END;

-- A sign of life for all a worker holds; `_extend` [[id, token, seconds], …] gives single jobs an
-- end of their own, never an earlier one. 'locked' are those that could not be given it now.
CREATE FUNCTION {schema}._renew(
  _worker text, _lease float8, _ids bigint[], _tokens bigint[], _extend json,
  _now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  wish record;
BEGIN
  PERFORM {schema}._beat(_worker, _lease, _lease, at);
  FOR wish IN
    SELECT (e ->> 0)::bigint AS job, (e ->> 1)::bigint AS token,
      at + make_interval(secs => (e ->> 2)::float8) AS until
    FROM json_array_elements(_extend) AS e
  LOOP
    UPDATE {schema}._jobs AS j SET lease_until = greatest(j.lease_until, wish.until)
    WHERE j.id = (
      SELECT k.id FROM {schema}._jobs AS k
      WHERE k.id = wish.job AND k.token = wish.token AND k.state = 'running'
      FOR NO KEY UPDATE SKIP LOCKED
    );
    IF NOT FOUND AND {schema}._refusal(wish.job, wish.token) = 'busy' THEN
      id := wish.job;
      answer := 'locked';
      RETURN NEXT;
    END IF;
  END LOOP;
  RETURN QUERY SELECT * FROM {schema}._check(_ids, _tokens);
END $$;

-- ── upkeep ──

-- Put jobs back whose worker is gone: the first time makes a job suspect, each further time
-- counts as a reset. The caller holds the rows.
CREATE FUNCTION {schema}._take_back(_ids bigint[], _max_resets integer, _at timestamptz)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  FOR j IN
    UPDATE {schema}._jobs AS k SET
      resets = k.resets + k.suspect::integer,
      attempts = k.attempts - 1,
      suspect = true,
      state = CASE
        WHEN k.superseded THEN 'failed'
        WHEN k.cancel_requested THEN 'cancelled'
        WHEN k.suspect AND k.resets + 1 >= _max_resets THEN 'failed'
        WHEN k.queue IS NULL THEN 'ready'
        ELSE 'waiting'
      END::{schema}._job_state,
      last_error = CASE
        WHEN k.superseded THEN {superseded}
        WHEN k.suspect AND k.resets + 1 >= _max_resets AND NOT k.cancel_requested
          THEN replace({killed}, '{0}', (k.resets + 1)::text)
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
      INSERT INTO {schema}._bells (queue) VALUES (j.queue);
    END IF;
    PERFORM pg_notify({channel}, '');
    RETURN NEXT j;
  END LOOP;
END $$;

-- Take back jobs of workers whose leases ran out, at most `_limit`; with `_orphans` also of
-- workers nobody knows.
CREATE FUNCTION {schema}._reap(
  _limit integer, _max_resets integer, _orphans boolean, _now timestamptz DEFAULT NULL,
  OUT requeued bigint[], OUT ended bigint[]
) LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  dead bigint[];
  doomed bigint[];
BEGIN
  SELECT coalesce(array_agg(w.id), '{}') INTO dead FROM (
    SELECT v.id FROM {schema}._workers AS v
    WHERE v.expires_at <= at ORDER BY v.id FOR UPDATE SKIP LOCKED
  ) AS w;
  IF _orphans THEN
    WITH RECURSIVE holder (id) AS (
      SELECT (SELECT j.worker FROM {schema}._jobs AS j WHERE j.state = 'running'
              ORDER BY j.worker LIMIT 1)
      UNION ALL
      SELECT (SELECT j.worker FROM {schema}._jobs AS j
              WHERE j.state = 'running' AND j.worker > h.id ORDER BY j.worker LIMIT 1)
      FROM holder AS h WHERE h.id IS NOT NULL
    )
    SELECT dead || coalesce(array_agg(h.id), '{}') INTO dead FROM holder AS h
    WHERE h.id IS NOT NULL
      AND NOT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.id = h.id);
  END IF;
  IF dead = '{}' THEN
    requeued := '{}';
    ended := '{}';
    RETURN;
  END IF;
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT j.id FROM {schema}._jobs AS j
    WHERE j.state = 'running' AND j.worker = ANY (dead)
      AND (j.lease_until IS NULL OR j.lease_until <= at)
    ORDER BY j.id LIMIT _limit FOR UPDATE SKIP LOCKED
  ) AS r;
  SELECT
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NULL), '{}'),
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NOT NULL), '{}')
  INTO requeued, ended
  FROM {schema}._take_back(doomed, _max_resets, at) AS t;
  DELETE FROM {schema}._workers AS w
  WHERE w.id = ANY (dead) AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS j WHERE j.state = 'running' AND j.worker = w.id
  );
END $$;

-- Forget a worker that stops; what it still holds is handed back. What somebody's transaction
-- holds is left to the reapers, who need not wait.
CREATE FUNCTION {schema}._retire(_worker text, _now timestamptz DEFAULT NULL) RETURNS void
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
  release.kind := 'release';
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = number ORDER BY k.id FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM {schema}._end(j, release, at);
  END LOOP;
  IF EXISTS (SELECT FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.worker = number) THEN
    UPDATE {schema}._workers AS w SET expires_at = at WHERE w.id = number;
  ELSE
    DELETE FROM {schema}._workers AS w WHERE w.id = number;
  END IF;
  -- Its queues may have waiting jobs, and it will not look after them any more.
  PERFORM pg_notify({channel}, '');
END $$;

-- Make due jobs ready, at most `_limit`; how many.
CREATE FUNCTION {schema}._promote(_limit integer, _now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  count integer;
  queues text[];
BEGIN
  WITH due AS MATERIALIZED (
    SELECT j.ctid AS tid FROM {schema}._jobs AS j
    WHERE j.state = 'scheduled' AND j.run_at <= at
    ORDER BY j.run_at, j.id LIMIT _limit FOR NO KEY UPDATE SKIP LOCKED
  ),
  made AS (
    UPDATE {schema}._jobs AS j SET state = {schema}._due_state(j.run_at, j.queue, at) FROM due
    WHERE j.ctid = due.tid AND j.state = 'scheduled' RETURNING j.queue
  )
  SELECT count(*), array_agg(DISTINCT m.queue) FILTER (WHERE m.queue IS NOT NULL)
  INTO count, queues FROM made AS m;
  IF queues IS NOT NULL THEN
    INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(queues) AS q;
  END IF;
  IF count > 0 THEN
    PERFORM pg_notify({channel}, '');
  END IF;
  RETURN count;
END $$;

-- Seconds until the next scheduled job is due, or NULL.
CREATE FUNCTION {schema}._next_due(_now timestamptz DEFAULT NULL) RETURNS float8
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT extract(epoch FROM j.run_at - coalesce(_now, statement_timestamp()))::float8
  FROM {schema}._jobs AS j WHERE j.state = 'scheduled' ORDER BY j.run_at, j.id LIMIT 1;
END;

-- Remove what was kept long enough, at most `_limit` rows in one step; how many.
CREATE FUNCTION {schema}._prune(
  _limit integer, _cancelled_kept float8, _now timestamptz DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  kept integer;
  cancelled integer;
BEGIN
  DELETE FROM {schema}._history AS h WHERE h.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._history AS o WHERE o.expires_at <= at
    ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS kept = ROW_COUNT;
  DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._jobs AS o
    WHERE o.state = 'cancelled' AND o.finished_at <= at - make_interval(secs => _cancelled_kept)
    ORDER BY o.finished_at LIMIT _limit - kept FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS cancelled = ROW_COUNT;
  RETURN kept + cancelled;
END $$;
