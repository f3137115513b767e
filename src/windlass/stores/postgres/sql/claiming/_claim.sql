-- Take claimable jobs; in (priority, run_at, id) order if there are more than `_limit`, though they
-- are answered in any order. A delivery's token is its job's id added to `_base`, which the caller
-- chose at random for this claim: if the answer is lost, `_claimed` tells by it what was taken.
--
-- Where at least `_least` of them are plain they become a batch, and `is_batch` says so. `_emptied`
-- are batches of this caller in which nothing is left.
--
-- `_tasks` is NULL for every task that has jobs. `_tenants` are those whose jobs it may take; NULL
-- among them stands for all but the default one, ''.
--
-- `_marks` gives per task the place to start after (in the order of `_tasks`, or none at all),
-- `_bell` the same for the bells: where index entries of claimed jobs cannot be removed yet (an old
-- snapshot is open) they pile up before it. `entries` is how many index entries were read, but for
-- those of claimable jobs that were not taken, so that the caller can tell.
--
-- Each step is a function of its own behind its condition. A call takes some microseconds, so what
-- an idle worker's claim does is in few of them.
CREATE OR REPLACE FUNCTION {schema}._claim(
  _worker text, _tasks text[], _tenants text[], _limit integer, _suspects integer, _lease float8, _base bigint,
  _longer jsonb, _forbidden text[], _past_heads boolean, _after text[], _marks bigint[],
  _bell bigint, _least integer, _emptied bigint[], _now timestamptz DEFAULT NULL,
  OUT leases text, OUT is_batch boolean, OUT is_more boolean, OUT next_after text[],
  OUT next_bell bigint, OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
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
  entries_before bigint := {entries_read};
  batches_before bigint := pg_stat_get_xact_tuples_returned({batches_index}::regclass);
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM {schema}._need_read_committed();
  END IF;
  is_batch := false;
  is_more := false;
  next_after := _after;
  next_bell := _bell;
  -- One question for what is seldom so: a claim should cost little where there is no more to do.
  SELECT
    (SELECT w.id FROM {schema}._workers AS w
     WHERE w.name = _worker AND w.expires_at > at + make_interval(secs => _lease * 2 / 3)
       AND w.expires_at <= at + make_interval(secs => _lease)),
    EXISTS (SELECT FROM {schema}._paused),
    EXISTS (SELECT FROM {schema}._jobs AS j WHERE j.holds),
    ('' = ANY (_tenants)) IS TRUE
      AND EXISTS (SELECT FROM {schema}._bells AS b WHERE b.tenant = '' AND b.n > _bell)
    OR is_every
      AND EXISTS (SELECT FROM {schema}._bells AS b WHERE b.tenant > '' AND b.n > _bell)
    OR kind = 'named' AND EXISTS (
      SELECT FROM unnest(_tenants) AS t (name) CROSS JOIN LATERAL (
        SELECT FROM {schema}._bells AS b
        WHERE b.tenant <> '' AND b.tenant = t.name AND b.n > _bell LIMIT 1
      ) AS r
    )
  INTO number, is_paused, is_held, is_rung;
  IF number IS NULL THEN
    number := {schema}._beat(_worker, _lease, _now);
  END IF;
  IF _emptied <> '{}' THEN
    PERFORM {schema}._drop_ended(_emptied);
  END IF;
  IF _tasks IS NULL THEN
    _tasks := {schema}._all_tasks(_tenants);
  END IF;
  IF is_rung THEN
    admission := {schema}._admit(_tenants, _tasks, _limit, _forbidden, _bell, at);
    heads := admission.heads;
    kept_bells := admission.kept;
    is_more := admission.is_more;
    next_bell := admission.last;
  END IF;
  IF _past_heads THEN
    exchange := {schema}._exchange_heads(_tenants, _tasks, _forbidden, _after);
    next_after := exchange.next_after;
  END IF;
  IF is_paused OR kind = 'named' THEN
    branches := {schema}._branches(kind, _tasks, _tenants, _marks);
    pick := {schema}._pick(
      kind, branches.tasks, branches.tenants, _limit, _suspects, _forbidden, branches.marks);
  ELSE
    pick := {schema}._pick(kind, _tasks, '{}', _limit, _suspects, _forbidden, _marks);
  END IF;
  picked := pick.picked;
  -- Jobs that a pause of their tenant keeps back are parked, and make room for others.
  FOR round IN 1 .. 10 LOOP
    EXIT WHEN NOT (is_paused AND is_every);
    parking := {schema}._park(picked);
    picked := parking.left_over;
    is_more := is_more OR parking.count > 0 OR parking.is_refused;
    EXIT WHEN parking.count = 0 OR round = 10;
    pick := {schema}._pick(
      kind, branches.tasks, branches.tenants, _limit, _suspects, _forbidden, branches.marks);
    picked := pick.picked;
  END LOOP;
  IF is_held THEN
    taken := cardinality(picked);
    picked := {schema}._keep_back(picked);
    is_more := is_more OR cardinality(picked) < taken;
  END IF;
  IF heads <> '{}' AND cardinality(picked) + cardinality(heads) > _limit THEN
    is_over := true;
    choice := {schema}._choose(picked, heads, admission.bells, _limit);
    picked := choice.picked;
    heads := choice.heads;
    kept_bells := kept_bells || choice.kept;
    next_bell := least(next_bell, choice.last_before);
  END IF;
  taken := cardinality(picked) + cardinality(heads);
  IF taken > 0 THEN
    PERFORM {schema}._lock_worker(number, _worker, _base);
  END IF;
  -- Entries of ended batches, too, stay in their index while an old snapshot is open, and every
  -- claim reads them all: so many must not become more.
  IF cardinality(picked) >= _least
    AND pg_stat_get_xact_tuples_returned({batches_index}::regclass) - batches_before < 2000
  THEN
    -- The leases are put together here: their text is long, and to hand it on is to copy it.
    SELECT array_agg(j.id), string_agg({schema}._lease(j, _base, 1, to_json(_worker)), ',')
    INTO fitting, leases
    FROM {schema}._jobs AS j WHERE j.ctid = ANY (picked) AND {schema}._fits_batch(j, _longer);
    IF cardinality(fitting) >= _least THEN
      is_batch := {schema}._write_batch(fitting, pick.spans, number, at, _base);
    END IF;
  END IF;
  IF is_batch THEN
    taken := taken - cardinality(fitting);
  ELSE
    leases := NULL;  -- all of them become running rows
  END IF;
  IF taken > 0 THEN
    rows := {schema}._write_rows(picked || heads, is_batch, number, _worker, at, _base, _longer);
  END IF;
  leases := '[' || concat_ws(',', leases, rows) || ']';
  entries := {entries_read} - entries_before - pick.spare;
  IF _past_heads THEN
    PERFORM {schema}._put_back(exchange.heads, exchange.candidates);
  END IF;
  IF is_rung THEN
    PERFORM {schema}._end_admission(admission.heard, kept_bells, admission.admitted, is_over);
  END IF;
END $$;
