-- breaking: yes
-- Batches: one lease for many jobs.
--
-- Most of what a claim costs is to change each row it takes. So a claim of many plain jobs writes
-- one row that names them all, and leaves theirs as they are: each is written once more, when it is
-- deleted.
--
-- A job is in a batch if and only if it is 'ready', was never delivered (deliveries = 0) and its id
-- is in a row of `_batches`. A job with a key or a queue, or of a task with leases of its own,
-- never is. Those who look at jobs and those who complete them know batches; everybody else first
-- makes an ordinary running row of the job, which has then left its batch for good, because
-- `deliveries` never goes down.
--
-- Two claims never take the same job: a claim locks the rows it picks and then, in a statement of
-- its own, looks for batches it has not seen; whoever had a row before has committed by then. The
-- same goes for whoever changes jobs: lock first, look afterwards. It takes a snapshot of its own
-- for each statement, and so a READ COMMITTED transaction.

CREATE TABLE {schema}._batches (
  base bigint NOT NULL,
  worker bigint NOT NULL,
  claimed_at timestamptz NOT NULL,
  ids int8multirange NOT NULL,
  CONSTRAINT _batches_pkey PRIMARY KEY (base)
) WITH (
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 1,
  toast.autovacuum_vacuum_scale_factor = 0.0,
  toast.autovacuum_vacuum_threshold = 2000
);
CREATE VIEW {schema}._in_batches AS
SELECT i.id, b.base, b.worker, b.claimed_at
FROM {schema}._batches AS b
CROSS JOIN LATERAL unnest(b.ids) AS r (span)
CROSS JOIN LATERAL generate_series(lower(r.span), upper(r.span) - 1) AS i (id);

-- A set of ids. Those that follow one another take no more room than one, and whether one is among
-- them is a matter of a few comparisons.
CREATE FUNCTION {schema}._spans(_ids bigint[]) RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(range_agg(int8range(i, i, '[]')), '{}') FROM unnest(_ids) AS i);

CREATE FUNCTION {schema}._need_read_committed() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'Jobs cannot be claimed or changed in a % transaction',
      upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'WLISO', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
END $$;

-- A job of a batch as the running row it stands for.
CREATE FUNCTION {schema}._as_running(
  j {schema}._jobs, _base bigint, _worker bigint, _claimed_at timestamptz
) RETURNS {schema}._jobs LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.state := 'running';
  j.token := _base + j.id;
  j.worker := _worker;
  j.claimed_at := _claimed_at;
  j.attempts := j.attempts + 1;
  j.deliveries := 1;
  RETURN j;
END $$;

-- Whether this token owns the job.
CREATE FUNCTION {schema}._is_held(j {schema}._jobs, _token bigint) RETURNS boolean
LANGUAGE sql STABLE
RETURN (j).state = 'running' AND (j).token = _token
  OR (j).state = 'ready' AND (j).deliveries = 0
    AND EXISTS (SELECT FROM {schema}._batches AS b WHERE b.base = _token - (j).id);

-- Make running rows of those of these jobs that are in batches. The caller has locked them.
CREATE FUNCTION {schema}._take_out(_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}._jobs AS j SET
    state = 'running', token = b.base + j.id, worker = b.worker, claimed_at = b.claimed_at,
    attempts = j.attempts + 1, deliveries = 1
  FROM unnest(_ids) AS x (id) JOIN {schema}._in_batches AS b ON b.id = x.id
  WHERE j.id = x.id AND j.state = 'ready' AND j.deliveries = 0;
END $$;

-- For whoever wants to change these jobs: lock them, whatever state they are in (one that is
-- scheduled now may be in a batch in a moment), and take out those in batches. Waits for claims
-- under way. Running rows are locked only `_with_running`. Answers which are locked (whatever else
-- the caller locked would be out of order), and the queues whose heads are among them.
CREATE FUNCTION {schema}._unbatch(
  _ids bigint[], _with_running boolean, OUT locked bigint[], OUT heads text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  is_any boolean;
BEGIN
  SELECT
    coalesce(array_agg(l.id), '{}'),
    array_agg(l.queue) FILTER (WHERE l.state = 'ready' AND l.queue IS NOT NULL),
    bool_or(l.state = 'ready' AND l.deliveries = 0 AND l.key IS NULL AND l.queue IS NULL)
  INTO locked, heads, is_any FROM (
    SELECT k.id, k.state, k.deliveries, k.key, k.queue FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND (_with_running OR k.state <> 'running')
    ORDER BY k.key NULLS FIRST, k.id FOR NO KEY UPDATE
  ) AS l;
  IF is_any THEN
    PERFORM {schema}._need_read_committed();
    PERFORM {schema}._take_out(locked);
  END IF;
END $$;

-- A job that is only what its task and payload say: no other job waits for it or has its key, and
-- when it is completed nothing is left of it.
CREATE FUNCTION {schema}._is_simple(j {schema}._jobs) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).key IS NULL AND (j).queue IS NULL AND (j).keep IS NULL;

-- Where all jobs of a call are simple they are changed first and looked for in batches afterwards,
-- which is one pass over their rows in place of two: a statement locks and changes them in the order
-- of their ids, but for those in batches that `_seen` has found, and then `_look_again` refuses the
-- change if there is a batch that `_seen` has not found. The caller undoes it, and goes the way of
-- `_unbatch`.
--
-- The jobs in batches, and these batches; NULL where not all jobs of the call are simple, or where
-- the transaction has one snapshot for all its statements and could not look again.
CREATE FUNCTION {schema}._seen(_ids bigint[], OUT bases bigint[], OUT held int8multirange)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
  IF current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND NOT {schema}._is_simple(k)
  ) THEN
    SELECT coalesce(array_agg(DISTINCT b.base), '{}'), coalesce(range_agg(r.span), '{}')
    INTO bases, held
    FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span);
  END IF;
END $$;

-- Whether an operator may change this job: it neither runs nor is it over, unless it failed. Where
-- `held` is NULL the caller has locked it with `_unbatch`.
CREATE FUNCTION {schema}._is_open(j {schema}._jobs, held int8multirange) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).state IN ('scheduled', 'waiting', 'ready', 'failed') AND (
  held IS NULL
  OR {schema}._is_simple(j) AND ((j).state <> 'ready' OR (j).deliveries > 0 OR NOT held @> (j).id)
);

CREATE FUNCTION {schema}._look_again(_ids bigint[], _bases bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  unseen int8multirange;
BEGIN
  SELECT range_agg(r.span) INTO unseen
  FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
  WHERE b.base <> ALL (_bases);
  IF unseen IS NOT NULL AND EXISTS (SELECT FROM unnest(_ids) AS i WHERE unseen @> i) THEN
    RAISE EXCEPTION 'Some of these jobs were claimed meanwhile' USING ERRCODE = 'WLBAT';
  END IF;
END $$;

-- For a worker that holds these jobs: what somebody's transaction holds stays as it is.
CREATE FUNCTION {schema}._unbatch_held(_ids bigint[], _tokens bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM {schema}._batches) THEN
    PERFORM {schema}._take_out(ARRAY(
      SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
      JOIN {schema}._batches AS b ON b.base = x.token - x.id
      JOIN {schema}._jobs AS k ON k.id = x.id AND k.state = 'ready' AND k.deliveries = 0
      ORDER BY k.id FOR NO KEY UPDATE OF k SKIP LOCKED
    ));
  END IF;
END $$;

-- End these batches: what is left in them becomes running rows. One with a job that somebody's
-- transaction holds stays until another time.
CREATE FUNCTION {schema}._spread(_bases bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  bases bigint[];
BEGIN
  bases := ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.base = ANY (_bases)
    ORDER BY b.base FOR UPDATE SKIP LOCKED
  );
  IF bases = '{}' THEN
    RETURN;
  END IF;
  PERFORM {schema}._take_out(ARRAY(
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.id IN (SELECT b.id FROM {schema}._in_batches AS b WHERE b.base = ANY (bases))
      AND k.state = 'ready' AND k.deliveries = 0
    ORDER BY k.id FOR NO KEY UPDATE OF k SKIP LOCKED
  ));
  DELETE FROM {schema}._batches AS b WHERE b.base = ANY (bases) AND NOT EXISTS (
    SELECT FROM {schema}._in_batches AS i JOIN {schema}._jobs AS k ON k.id = i.id
    WHERE i.base = b.base AND k.state = 'ready' AND k.deliveries = 0
  );
END $$;
