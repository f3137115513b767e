-- breaking: yes
-- Claiming: one atomic step that never waits for a row that somebody's open transaction holds.

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
