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
CREATE OR REPLACE FUNCTION {schema}._claim(
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
  -- A call that ends the worker, or asks what became of this claim, locks the worker's row. If it
  -- comes later, it sees this claim. If it came first, this claim fails here: its caller makes it
  -- again, or has given it up. It does not wait for the lock: it holds jobs, and maybe the latch.
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
