-- breaking: yes
-- Leases, and the upkeep that workers do for one another.

-- Which of these leases are lost, and why; whose jobs should stop. Batches in which jobs have run
-- for a while are spread, so that what every claim reads of batches stays small.
CREATE FUNCTION {schema}._check(
  _ids bigint[], _tokens bigint[], _now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  old bigint[];
BEGIN
  SELECT array_agg(b.base), array_agg(b.base) FILTER (WHERE b.claimed_at < at - interval '1 s')
  INTO bases, old FROM {schema}._batches AS b WHERE EXISTS (
    SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
  );
  -- With one snapshot for the whole call it would fail whenever one of them is settled meanwhile.
  IF old IS NOT NULL AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM {schema}._spread(old);
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
  LEFT JOIN {schema}._jobs AS j ON j.id = x.id
  LEFT JOIN {schema}._history AS h ON h.id = x.id
  WHERE j.id IS NULL OR j.cancel_requested OR NOT (
    j.state = 'running' AND j.token = x.token
    OR j.state = 'ready' AND j.deliveries = 0 AND x.token - x.id = ANY (bases)
  ) IS TRUE;
END $$;

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
  number bigint;
  wish record;
BEGIN
  number := {schema}._beat(_worker, _lease, _now);
  -- Also those of which nothing is left, and which this worker has forgotten.
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM {schema}._spread(ARRAY(
      SELECT b.base FROM {schema}._batches AS b
      WHERE b.worker = number AND b.claimed_at < at - interval '1 s'
    ));
  END IF;
  PERFORM {schema}._unbatch_held(
    array_agg((e ->> 0)::bigint), array_agg((e ->> 1)::bigint)
  ) FROM json_array_elements(_extend) AS e HAVING count(*) > 0;
  FOR wish IN
    SELECT (e ->> 0)::bigint AS job, (e ->> 1)::bigint AS token, (e ->> 2)::float8 AS lease,
      at + make_interval(secs => (e ->> 2)::float8) AS until
    FROM json_array_elements(_extend) AS e
  LOOP
    UPDATE {schema}._jobs AS j SET
      lease_until = greatest(
        wish.until, least(j.lease_until, at + make_interval(secs => j.lease))
      ),
      lease = greatest(wish.lease, j.lease)
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
  RETURN QUERY SELECT * FROM {schema}._check(_ids, _tokens, _now);
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

-- What this machine knows of the database's clock: what an earlier process on it has noted, or, if
-- there was none, that it watches from now on. `_at` is the instant on the machine's own clock.
CREATE FUNCTION {schema}._watch_clock(
  _machine text, _at float8, _now timestamptz DEFAULT NULL,
  OUT zero_micros bigint, OUT watched_since float8
) LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._clocks AS c (machine, zero_at, since, noted_at)
  SELECT _machine, n.at - make_interval(secs => _at), _at, n.at
  FROM (SELECT coalesce(_now, statement_timestamp()) AS at) AS n
  ON CONFLICT (machine) DO UPDATE SET noted_at = excluded.noted_at
  RETURNING {schema}._micros(c.zero_at), c.since;
END;

-- The clock was set, by `_by`: leases that began before are moved along. None ends later than one
-- lease from now, whatever it was moved by, and one that ends later than that is certainly of before.
-- Nobody can tell whether others are, so those are left alone where the clock was set back.
CREATE FUNCTION {schema}._move_leases(_by interval, _now timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  UPDATE {schema}._workers AS w SET expires_at = least(
    m.last_end, w.expires_at + CASE
      WHEN _by > interval '0' OR w.expires_at > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT v.id, coalesce(_now, clock_timestamp()) + make_interval(secs => v.lease) AS last_end
    FROM {schema}._workers AS v ORDER BY v.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE w.id = m.id;
  UPDATE {schema}._jobs AS j SET lease_until = least(
    m.last_end, j.lease_until + CASE
      WHEN _by > interval '0' OR j.lease_until > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT k.id, coalesce(_now, clock_timestamp()) + make_interval(secs => k.lease) AS last_end
    FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.lease_until IS NOT NULL
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE j.id = m.id;
END $$;

-- This machine saw the clock jump by `_by`, to where its zero is at `_zero_at`. Notes of machines
-- that have not been heard of for long are of no use to anybody.
CREATE FUNCTION {schema}._follow_clock(
  _machine text, _zero_at timestamptz, _since float8, _by interval, _now timestamptz DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  now_here timestamptz := coalesce(_now, clock_timestamp());
BEGIN
  PERFORM {schema}._move_leases(_by, _now);
  INSERT INTO {schema}._clocks AS c (machine, zero_at, since, noted_at)
  VALUES (_machine, _zero_at, _since, now_here)
  ON CONFLICT (machine) DO UPDATE SET
    zero_at = excluded.zero_at, since = excluded.since, noted_at = excluded.noted_at;
  DELETE FROM {schema}._clocks AS c
  WHERE c.machine <> _machine AND c.noted_at < now_here - interval '30 days';
END $$;

-- Take back jobs of workers whose leases ran out, at most `_limit`; with `_orphans` also of
-- workers nobody knows.
--
-- A lease has run out when it has by this clock, and by what the reaper reckons that the clock
-- should show, which is `_reckoned`: so a clock that was set forward ends none. `_since` is from
-- when on the reaper could have seen that; a sign of life of before counts as one given then.
CREATE FUNCTION {schema}._reap(
  _limit integer, _max_resets integer, _orphans boolean, _reckoned timestamptz,
  _since timestamptz, _now timestamptz DEFAULT NULL,
  OUT requeued bigint[], OUT ended bigint[], OUT at_micros bigint
) LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  passed timestamptz := least(at, _reckoned);
  dead bigint[];
  doomed bigint[];
BEGIN
  at_micros := {schema}._micros(at);
  -- No worker gives a sign of life in the future: the clock was set back. A reaper that has watched
  -- it will tell by how much.
  IF at > _reckoned - interval '250 ms' AND EXISTS (
    SELECT FROM {schema}._workers AS w
    WHERE w.expires_at > coalesce(_now, clock_timestamp()) + make_interval(secs => w.lease)
  ) THEN
    PERFORM {schema}._move_leases(interval '0', _now);
  END IF;
  SELECT coalesce(array_agg(w.id), '{}') INTO dead FROM (
    SELECT v.id FROM {schema}._workers AS v
    WHERE greatest(v.expires_at, _since + make_interval(secs => v.lease)) <= passed
    ORDER BY v.id FOR UPDATE SKIP LOCKED
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
    SELECT dead || coalesce(array_agg(b.worker), '{}') INTO dead FROM {schema}._batches AS b
    WHERE NOT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.id = b.worker);
  END IF;
  IF dead = '{}' THEN
    requeued := '{}';
    ended := '{}';
    RETURN;
  END IF;
  PERFORM {schema}._spread(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = ANY (dead)
  ));
  UPDATE {schema}._jobs AS j SET lease_until = at + make_interval(secs => j.lease)
  WHERE j.id = ANY (ARRAY(
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (dead)
      AND k.lease_until > at + make_interval(secs => k.lease)
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT j.id FROM {schema}._jobs AS j
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
  FROM {schema}._take_back(doomed, _max_resets, at) AS t;
  DELETE FROM {schema}._workers AS w
  WHERE w.id = ANY (dead) AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS j WHERE j.state = 'running' AND j.worker = w.id
  ) AND NOT EXISTS (SELECT FROM {schema}._batches AS b WHERE b.worker = w.id);
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
  PERFORM {schema}._spread(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = number
  ));
  release.kind := 'release';
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = number ORDER BY k.id FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM {schema}._end(j, release, at);
  END LOOP;
  IF EXISTS (SELECT FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.worker = number)
    OR EXISTS (SELECT FROM {schema}._batches AS b WHERE b.worker = number)
  THEN
    UPDATE {schema}._workers AS w SET expires_at = at, lease = 0 WHERE w.id = number;
  ELSE
    DELETE FROM {schema}._workers AS w WHERE w.id = number;
  END IF;
  -- Its queues may have waiting jobs, and it will not look after them any more.
  PERFORM pg_notify({channel}, '');
END $$;

-- Make due jobs ready, at most `_limit`; how many. `_after` is the place to start after, {run_at in
-- microseconds, id}: where index entries of such jobs cannot be removed yet (an old snapshot is open)
-- they pile up before it. None is left between that and `reached`, but for those that an open
-- transaction holds. `entries` is how many index entries were read.
CREATE FUNCTION {schema}._promote(
  _limit integer, _after bigint[], _now timestamptz DEFAULT NULL,
  OUT count integer, OUT reached bigint[], OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  before bigint := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass);
  queues text[];
BEGIN
  WITH due AS MATERIALIZED (
    SELECT j.ctid AS tid FROM {schema}._jobs AS j
    WHERE j.state = 'scheduled' AND j.run_at <= at
      AND (j.run_at, j.id) > (
        timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
    ORDER BY j.run_at, j.id LIMIT _limit FOR NO KEY UPDATE SKIP LOCKED
  ),
  made AS (
    UPDATE {schema}._jobs AS j SET state = {schema}._due_state(j.run_at, j.queue, at) FROM due
    WHERE j.ctid = due.tid AND j.state = 'scheduled' RETURNING j.queue, j.run_at, j.id
  )
  SELECT count(*), array_agg(DISTINCT m.queue) FILTER (WHERE m.queue IS NOT NULL),
    (SELECT ARRAY[{schema}._micros(l.run_at), l.id] FROM made AS l
     ORDER BY l.run_at DESC, l.id DESC LIMIT 1)
  INTO count, queues, reached FROM made AS m;
  IF count < _limit THEN
    reached := ARRAY[{schema}._micros(at), 9223372036854775807];
  END IF;
  entries := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass) - before;
  IF queues IS NOT NULL THEN
    INSERT INTO {schema}._bells (queue) SELECT q FROM unnest(queues) AS q;
  END IF;
  IF count > 0 THEN
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;

-- Seconds until the next scheduled job after `_after` is due, its place, and what that took, as
-- above.
CREATE FUNCTION {schema}._next_due(
  _after bigint[], _now timestamptz DEFAULT NULL,
  OUT due float8, OUT place bigint[], OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  before bigint := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass);
BEGIN
  SELECT extract(epoch FROM j.run_at - coalesce(_now, statement_timestamp()))::float8,
    ARRAY[{schema}._micros(j.run_at), j.id]
  INTO due, place FROM {schema}._jobs AS j
  WHERE j.state = 'scheduled'
    AND (j.run_at, j.id) > (
      timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
  ORDER BY j.run_at, j.id LIMIT 1;
  entries := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass) - before;
END $$;

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

-- Remember which tasks a worker runs; whether there is such a worker.
CREATE FUNCTION {schema}._introduce(_worker text, _tasks text[]) RETURNS boolean
LANGUAGE sql
BEGIN ATOMIC
  UPDATE {schema}._workers AS w SET tasks = _tasks
  WHERE w.name = _worker AND w.tasks IS DISTINCT FROM _tasks;
  SELECT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.name = _worker);
END;

-- Tasks with ready jobs that no live worker runs, at most `_most`; none while a live worker has not
-- said what it runs. Ready are also those that wait for their queue. It looks between the names that are known, so that the many entries of tasks
-- at work, dead ones too, are not read.
CREATE FUNCTION {schema}._stranded(_most integer, _now timestamptz DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  known text[];
  low text;
  high text;
  next text;
  found_tasks text[] := '{}';
BEGIN
  IF EXISTS (SELECT FROM {schema}._workers AS w WHERE w.expires_at > at AND w.tasks IS NULL) THEN
    RETURN found_tasks;
  END IF;
  known := ARRAY(
    SELECT DISTINCT n.name FROM (
      SELECT unnest(w.tasks) AS name FROM {schema}._workers AS w WHERE w.expires_at > at
      UNION ALL
      SELECT p.name FROM {schema}._paused AS p WHERE p.kind = 'task'
    ) AS n ORDER BY n.name
  );
  low := '';
  FOREACH high IN ARRAY known || NULL::text LOOP
    LOOP
      IF high IS NULL THEN
        next := least(
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'waiting' AND j.task > low ORDER BY j.task LIMIT 1)
        );
      ELSE
        next := least(
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low AND j.task < high
           ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM {schema}._jobs AS j
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
    SELECT j.task FROM {schema}._jobs AS j
    WHERE j.state = 'ready' AND j.suspect AND j.task <> ALL (known)
    LIMIT _most
  );
END $$;
