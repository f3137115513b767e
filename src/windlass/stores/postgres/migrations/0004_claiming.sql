-- breaking: yes
-- Claiming: one atomic step that never waits for a row that somebody's open transaction holds.

-- A sign of life: the worker owns what it holds until `_lease` seconds from now. Its number.
-- The clock is read once the row is locked: it may have been set while this waited for the lock.
CREATE FUNCTION {schema}._beat(_worker text, _lease float8, _now timestamptz) RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._workers AS w (name, expires_at, lease)
  VALUES (
    _worker, coalesce(_now, clock_timestamp()) + make_interval(secs => _lease), _lease
  )
  ON CONFLICT (name) DO UPDATE SET
    expires_at = coalesce(_now, clock_timestamp()) + make_interval(secs => excluded.lease),
    lease = excluded.lease
  RETURNING w.id;
END;

-- Answer the doorbells: in each queue that rang and has no active job, the best waiting one is its
-- head. One caller at a time, behind the latch. `heads` are those that a caller with these tasks
-- and flags may claim, as places in the table, and `bells` the first bell of each; a head may be
-- there twice. Their rows are locked, and the caller must make them running or ready, or leave their
-- bells: so a head that is claimed at once is written once. All other heads become ready here, and
-- `admitted` are their ids.
-- Bells are read before the queues are looked at: a job that leaves after the look has rung a bell
-- that this call has not read. `heard` are those it has read, for the caller to delete, but for the
-- bells of heads it leaves and for `kept`: the bells of queues in which every waiting job is locked
-- by an open transaction. These stay as they are, so that nothing is written for as long as it
-- takes, and `last`, the last bell read, lies behind them. Only bells after `_after` are looked for.
-- There are no more looks than it takes to find `_limit` heads, and never more than four.
-- `is_more` says that there is more to answer: another claim is at it, or there were too many.
CREATE FUNCTION {schema}._admit(
  _tasks text[], _limit integer, _forbidden text[], _after bigint,
  OUT is_more boolean, OUT heads tid[], OUT bells bigint[], OUT admitted bigint[],
  OUT heard bigint[], OUT kept bigint[], OUT last bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
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
  IF NOT EXISTS (SELECT FROM {schema}._bells AS b WHERE b.n > _after) THEN
    RETURN;
  END IF;
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    is_more := true;
    RETURN;
  END IF;
  FOR look IN 1 .. 4 LOOP
    SELECT count(*) = most, coalesce(max(f.n), last), array_agg(f.n), array_agg(f.queue)
    INTO is_more, last, numbers, rung FROM (
      SELECT b.n, b.queue FROM {schema}._bells AS b WHERE b.n > last ORDER BY b.n LIMIT most
    ) AS f;
    heard := heard || numbers;
    IF EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'queue') THEN
      SELECT array_agg(u.n), array_agg(u.name) INTO numbers, rung
      FROM unnest(numbers, rung) AS u (n, name)
      WHERE NOT EXISTS (
        SELECT FROM {schema}._paused AS p WHERE p.kind = 'queue' AND p.name = u.name
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
      SELECT true AS is_busy FROM {schema}._jobs AS j
      WHERE j.queue = q.name AND j.queue IS NOT NULL AND j.state IN ('ready', 'running') LIMIT 1
    ) AS a ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name AND a.is_busy IS NULL
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS h ON true;
    heads := heads || found_heads;
    bells := bells || found_bells;
    served := served || found_queues;
    IF foreign_heads IS NOT NULL THEN
      admitted := admitted || {schema}._make_ready(foreign_heads);
    END IF;
    IF unanswered IS NOT NULL THEN
      kept := kept || ARRAY(
        SELECT q.n FROM unnest(unanswered, unanswered_queues) AS q (n, name)
        CROSS JOIN LATERAL (
          SELECT FROM {schema}._jobs AS w WHERE w.state = 'waiting' AND w.queue = q.name
          ORDER BY w.priority, w.run_at, w.id LIMIT 1
        ) AS h
      );
    END IF;
    EXIT WHEN NOT is_more OR cardinality(heads) >= _limit;
  END LOOP;
END $$;

-- Heads of queues, locked by the caller, are now for everybody. Their ids.
CREATE FUNCTION {schema}._make_ready(_heads tid[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
BEGIN
  WITH made AS (
    UPDATE {schema}._jobs AS j SET state = 'ready'
    WHERE j.ctid = ANY (_heads) AND j.state = 'waiting' RETURNING j.id
  )
  SELECT coalesce(array_agg(m.id), '{}') INTO ids FROM made AS m;
  RETURN ids;
END $$;

-- Queues whose ready head this worker may not run, while a job behind it is one that it may: put
-- that job in the head's place. Looks at 200 queues per task, fewer where there are more than ten
-- tasks, after `_after` by name; says where to go on.
CREATE FUNCTION {schema}._exchange_heads(
  _tasks text[], _forbidden text[], _after text,
  OUT heads bigint[], OUT candidates bigint[], OUT next_after text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  most integer := greatest(1, least(200, 2000 / greatest(cardinality(_tasks), 1)));
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
      FROM step AS s WHERE s.queue IS NOT NULL AND s.n < most
    )
    SELECT DISTINCT ON (s.queue)
      s.queue, h.id AS head, c.id AS candidate,
      (SELECT min(x.queue) FROM step AS x WHERE x.n = most) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM {schema}._jobs AS h
      WHERE h.queue = s.queue AND h.queue IS NOT NULL AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      (h.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS NOT TRUE OR h.flags && _forbidden
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.task = s.task AND w.queue = s.queue AND h.id IS NOT NULL
        AND (w.flags && _forbidden) IS NOT TRUE
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '');
    CONTINUE WHEN swap.candidate IS NULL;
    SELECT j.id INTO held FROM {schema}._jobs AS j
    WHERE j.id = swap.candidate AND j.state = 'waiting' AND j.queue = swap.queue
    FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.id = (
      SELECT k.id FROM {schema}._jobs AS k
      WHERE k.id = swap.head AND k.state = 'ready' AND k.queue = swap.queue
      FOR NO KEY UPDATE SKIP LOCKED
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

-- An instant not after now in microseconds, three times as fast as `_micros`: until the year 2100
-- seconds in a float8 are exact to the microsecond.
CREATE FUNCTION {schema}._quick_micros(instant timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (date_part('epoch', {schema}._finite(instant)) * 1000000)::bigint;

-- One delivery as a JSON array, in the order of `windlass.store.records.Lease`. `more` is 1 where
-- the row does not count this delivery yet. JSON put together as text costs half of what
-- `json_build_array` does.
CREATE FUNCTION {schema}._lease(j {schema}._jobs, base bigint, more integer, worker json)
RETURNS text LANGUAGE sql STABLE
RETURN concat_ws(
  ',', '[' || (j).id, base + (j).id, worker, to_json((j).task), to_json((j).payload::text),
  (j).attempts + more, (j).deliveries + more, coalesce((j).max_attempts::text, 'null'),
  (j).priority, {schema}._quick_micros((j).run_at), coalesce(to_json((j).key)::text, 'null'),
  coalesce(to_json((j).queue)::text, 'null'),
  coalesce(to_json({schema}._listed((j).flags))::text, 'null'), (j).revision, (j).resets, (j).suspect::text, coalesce({schema}._span((j).keep)::text, 'null'),
  {schema}._quick_micros((j).created_at), {schema}._quick_micros((j).updated_at),
  coalesce(to_json((j).last_error)::text, 'null') || ']');

-- Lock the best claimable jobs of these tasks: their places in the table, in no order. `_held` are
-- the jobs in batches. One ordered branch per task, merged: nothing is read that is not returned,
-- but for those and one row per task. A branch starts after the mark of its task: {priority,
-- run_at in microseconds, id}, and before every job where it has none. The number of branches is
-- fixed, so that the plan is made once in a session; tasks beyond the given ones are NULL and cost
-- nothing.
DO $build$
DECLARE
  variant integer;
  branches text;
BEGIN
  FOREACH variant IN ARRAY ARRAY[1, 4, 16] LOOP
    SELECT string_agg(format($branch$
      (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[%1$s]
         AND (j.priority, j.run_at, j.id) > (
           coalesce(_marks[%1$s][1], -2147483649),
           timestamptz 'epoch' + coalesce(_marks[%1$s][2], 0) * interval '1 microsecond',
           coalesce(_marks[%1$s][3], 0))
         AND (j.deliveries > 0 OR NOT _held @> j.id)
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id)$branch$, n), ' UNION ALL ')
    INTO branches FROM generate_series(1, variant) AS n;
    EXECUTE format($function$
      CREATE FUNCTION {schema}._pick_%s(
        _tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[],
        _held int8multirange
      ) RETURNS tid[] LANGUAGE plpgsql AS $pick$
      BEGIN
        RETURN ARRAY(
          SELECT l.tid FROM (
            SELECT u.* FROM (%s UNION ALL
              (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
               WHERE j.state = 'ready' AND j.suspect AND j.task = ANY (_tasks)
                 AND (j.flags && _forbidden) IS NOT TRUE
               ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
            ) AS u ORDER BY u.priority, u.run_at, u.id
          ) AS c
          CROSS JOIN LATERAL (
            SELECT r.ctid AS tid FROM {schema}._jobs AS r
            WHERE r.ctid = c.tid AND r.state = 'ready'
              AND (r.deliveries > 0 OR NOT _held @> r.id)
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS l
          LIMIT _limit
        );
      END $pick$
    $function$, variant, branches);
  END LOOP;
END $build$;

-- The same for any number of tasks; `spare` is how many jobs it read and did not take.
--
-- It first reads the best job of each task. The best `_limit` of these name the tasks that matter.
-- Then it reads some jobs of each of them, and more for as long as all that was read of one task is
-- among the best `_limit`: at least four times as many each time, but none that comes after the
-- last of the best known so far. So a look reads a few times `_limit` jobs however they are spread
-- over the tasks, and there are few looks. Where other claims have locked some of the best, it
-- goes on after them.
CREATE FUNCTION {schema}._pick_many(
  _tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[],
  _held int8multirange, OUT picked tid[], OUT spare bigint
) LANGUAGE plpgsql AS $$
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
          SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
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
          (SELECT NULL, NULL, j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
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
        (SELECT ARRAY[b.priority, {schema}._micros(b.run_at), b.id] FROM best_of AS b
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
        SELECT r.ctid AS tid FROM {schema}._jobs AS r
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

-- Lock up to `_limit` jobs that are neither running nor in a batch, as `_pick_…` does. `spans` is how
-- many ranges of ids the batches have.
CREATE FUNCTION {schema}._pick(
  _tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[],
  OUT picked tid[], OUT spare bigint, OUT spans integer
) LANGUAGE plpgsql AS $$
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
  bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  -- To pass by a row that another claim has locked costs many times what one of its batch does: so
  -- where there are batches, claims that may take another one take turns. But nobody waits long.
  IF _limit >= 500 AND bases <> '{}' THEN
    FOR attempt IN 1 .. 10 LOOP
      EXIT WHEN pg_try_advisory_xact_lock({turn});
      PERFORM pg_sleep(0.001);
    END LOOP;
    bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  END IF;
  LOOP
    held := '{}';
    IF bases <> '{}' THEN
      SELECT coalesce(range_agg(r.span), '{}'), count(*) INTO held, spans
      FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
      WHERE b.base = ANY (bases);
    END IF;
    spare := cardinality(_tasks);  -- each branch reads one job ahead
    CASE
      WHEN cardinality(_tasks) = 1 THEN
        picked := {schema}._pick_1(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 4 THEN
        picked := {schema}._pick_4(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 16 THEN
        picked := {schema}._pick_16(_tasks, _limit, _suspects, _forbidden, _marks, held);
      ELSE
        SELECT m.picked, m.spare INTO picked, spare
        FROM {schema}._pick_many(_tasks, _limit, _suspects, _forbidden, _marks, held) AS m;
    END CASE;
    -- A batch that was written in the meantime may have some of these: pick again, without them.
    EXIT WHEN picked = '{}' OR NOT EXISTS (
      SELECT FROM {schema}._batches AS b
      WHERE b.base <> ALL (bases)
        AND b.ids && {schema}._spans(
          ARRAY(SELECT j.id FROM {schema}._jobs AS j WHERE j.ctid = ANY (picked)))
    );
    bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  END LOOP;
END $$;

-- Take claimable jobs; in (priority, run_at, id) order if there are more than `_limit`, though they
-- are answered in any order. A delivery's token is its job's id added to `_base`, which the caller
-- chose at random for this claim: if the answer is lost, `_claimed` tells by it what was taken.
--
-- Where at least `_least` of them are plain they become a batch, and `is_batch` says so. `_ended`
-- are batches of this caller in which nothing is left.
--
-- `_marks` gives per task the place to start after (in the order of `_tasks`, or none at all),
-- `_bell` the same for the bells: where index entries of claimed jobs cannot be removed yet (an old
-- snapshot is open) they pile up before it. `entries` is how many index entries were read, but for
-- those of claimable jobs that were not taken, so that the caller can tell.
CREATE FUNCTION {schema}._claim(
  _worker text, _tasks text[], _limit integer, _suspects integer, _lease float8, _base bigint,
  _longer jsonb, _forbidden text[], _past_heads boolean, _after text, _marks bigint[],
  _bell bigint, _least integer, _ended bigint[], _now timestamptz DEFAULT NULL,
  OUT leases text, OUT is_batch boolean, OUT is_more boolean, OUT next_after text,
  OUT next_bell bigint, OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
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
  before bigint := pg_stat_get_xact_tuples_returned({ready_index}::regclass)
    + pg_stat_get_xact_tuples_returned({bells_index}::regclass);
  batches_before bigint := pg_stat_get_xact_tuples_returned({batches_index}::regclass);
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM {schema}._need_read_committed();
  END IF;
  is_more := false;
  next_after := _after;
  next_bell := _bell;
  -- One question for what is seldom so: a claim should cost little where there is nothing else to do.
  SELECT
    (SELECT w.id FROM {schema}._workers AS w
     WHERE w.name = _worker AND w.expires_at > at + make_interval(secs => _lease * 2 / 3)
       AND w.expires_at <= at + make_interval(secs => _lease)),
    EXISTS (SELECT FROM {schema}._paused),
    EXISTS (SELECT FROM {schema}._bells AS b WHERE b.n > _bell)
  INTO number, is_paused, is_rung;
  IF number IS NULL THEN
    number := {schema}._beat(_worker, _lease, _now);
  END IF;
  IF _ended <> '{}' THEN
    DELETE FROM {schema}._batches AS b WHERE b.base = ANY (ARRAY(
      SELECT c.base FROM {schema}._batches AS c WHERE c.base = ANY (_ended)
      FOR UPDATE SKIP LOCKED
    ));
  END IF;
  IF is_paused THEN
    SELECT coalesce(array_agg(t.name ORDER BY t.n), '{}'), coalesce(array_agg(
      ARRAY[_marks[t.n][1], _marks[t.n][2], _marks[t.n][3]] ORDER BY t.n), '{}')
    INTO _tasks, _marks FROM unnest(_tasks) WITH ORDINALITY AS t (name, n)
    WHERE NOT EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task' AND p.name = t.name);
  END IF;
  IF is_rung THEN
    admission := {schema}._admit(_tasks, _limit, _forbidden, _bell);
    heads := admission.heads;
    kept_bells := admission.kept;
    is_more := admission.is_more;
    next_bell := admission.last;
  END IF;
  IF _past_heads THEN
    exchange := {schema}._exchange_heads(_tasks, _forbidden, _after);
    next_after := exchange.next_after;
  END IF;
  SELECT p.picked, p.spare, p.spans INTO picked, spare, spans
  FROM {schema}._pick(_tasks, _limit, _suspects, _forbidden, _marks) AS p;
  IF heads <> '{}' AND cardinality(picked) + cardinality(heads) > _limit THEN
    is_over := true;
    SELECT
      coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'ready' AND o.place <= _limit), '{}'),
      coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place <= _limit), '{}'),
      array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place > _limit)
    INTO picked, heads, left_over FROM (
      SELECT j.ctid AS tid, j.state,
        row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS place
      FROM {schema}._jobs AS j WHERE j.ctid = ANY (picked || heads)
    ) AS o;
    -- Looked at again by the next claim they cost less than written twice, if they are not many.
    IF cardinality(left_over) > _limit THEN
      PERFORM {schema}._make_ready(left_over);
    ELSIF left_over IS NOT NULL THEN
      SELECT kept_bells || array_agg(h.n), least(next_bell, min(h.n) - 1)
      INTO kept_bells, next_bell FROM unnest(left_over) AS l (tid)
      JOIN unnest(admission.heads, admission.bells) AS h (tid, n) ON h.tid = l.tid;
    END IF;
  END IF;
  -- Entries of ended batches, too, stay in their index while an old snapshot is open, and every
  -- claim reads them all: so many must not become more.
  IF cardinality(picked) >= _least
    AND pg_stat_get_xact_tuples_returned({batches_index}::regclass) - batches_before < 2000
  THEN
    SELECT array_agg(j.id), string_agg({schema}._lease(j, _base, 1, to_json(_worker)), ',')
    INTO plain, leases FROM {schema}._jobs AS j
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
    PERFORM FROM {schema}._workers AS w
    WHERE w.id = number AND (w.refused IS NULL OR _base <> ALL (w.refused))
    FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'The worker % was ended, or has given up this claim', _worker
        USING ERRCODE = 'serialization_failure';
    END IF;
  END IF;
  IF is_batch THEN
    ids := {schema}._spans(plain);
    is_batch := spans + (SELECT count(*) FROM unnest(ids)) <= {most_spans};
  END IF;
  IF is_batch THEN
    INSERT INTO {schema}._batches (base, worker, claimed_at, ids)
    VALUES (_base, number, at, ids);
  ELSE
    plain := '{}';
    leases := NULL;
  END IF;
  IF cardinality(picked) + cardinality(heads) > cardinality(plain) THEN
    WITH given AS (
      UPDATE {schema}._jobs AS j SET
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
    SELECT string_agg({schema}._lease(g, _base, 0, to_json(_worker)), ',') INTO others
    FROM given AS g;
  END IF;
  leases := '[' || concat_ws(',', leases, others) || ']';
  entries := pg_stat_get_xact_tuples_returned({ready_index}::regclass)
    + pg_stat_get_xact_tuples_returned({bells_index}::regclass) - before - spare;
  IF _past_heads THEN
    PERFORM {schema}._put_back(exchange.heads, exchange.candidates);
  END IF;
  IF is_rung THEN
    IF kept_bells <> '{}' THEN
      admission.heard := ARRAY(
        SELECT h.n FROM unnest(admission.heard) AS h (n)
        WHERE h.n NOT IN (SELECT k.n FROM unnest(kept_bells) AS k (n))
      );
    END IF;
    DELETE FROM {schema}._bells AS b WHERE b.n = ANY (admission.heard);
    -- What this call made ready or held, and does not take, is for others.
    PERFORM pg_notify({channel}, '') WHERE is_over OR EXISTS (
      SELECT FROM {schema}._jobs AS j WHERE j.id = ANY (admission.admitted) AND j.state = 'ready'
    );
  END IF;
END $$;

-- What claims with these bases took, if they happened at all. Those that have not happened by now
-- never will: the answer is final. It waits for one that is just writing.
CREATE FUNCTION {schema}._claimed(
  _worker text, _lease float8, _bases bigint[], _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '5s'
AS $$
DECLARE
  number bigint;
BEGIN
  number := {schema}._beat(_worker, _lease, _now);
  PERFORM FROM {schema}._workers AS w WHERE w.id = number FOR UPDATE;
  UPDATE {schema}._workers AS w
  SET refused = _bases || w.refused[:100] WHERE w.id = number;
  RETURN (SELECT '[' || string_agg(x.lease, ',') || ']' FROM (
    SELECT {schema}._lease(j, j.token - j.id, 0, to_json(_worker)) AS lease
    FROM {schema}._jobs AS j
    WHERE j.state = 'running' AND j.worker = number AND j.token - j.id = ANY (_bases)
    UNION ALL
    SELECT {schema}._lease(j, b.base, 1, to_json(_worker))
    FROM {schema}._in_batches AS b JOIN {schema}._jobs AS j ON j.id = b.id
    WHERE b.base = ANY (_bases) AND j.state = 'ready' AND j.deliveries = 0
  ) AS x);
END $$;
