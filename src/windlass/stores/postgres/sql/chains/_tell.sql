-- Tell the jobs that wait for these chains, which have ended, of each chain those after the job in
-- `_afters`. What follows is told too, and so on along the line, without recursion.
--
-- A job that another transaction has locked is not waited for: a bell for it and the chain has a claim
-- do it. Of each chain no more jobs are told than make a short call; the rest goes on by a bell.
--
-- The rows of the jobs are locked before it is looked how they stand: what an end that came before
-- has counted down is seen then. Where chains have ended badly (`_is_bad`), jobs may fail because of it,
-- and so their own chains are locked, too.
CREATE OR REPLACE FUNCTION {schema}._tell(
  _chains bigint[], _afters bigint[], _is_bad boolean, _at timestamptz
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  told integer := 0;
  rounds integer := 0;
  jobs bigint[];
  chains bigint[];
  locked bigint[];
  failed bigint[];
BEGIN
  WHILE _chains <> '{}' LOOP
    SELECT array_agg(f.job), array_agg(f.chain) INTO jobs, chains FROM (
      SELECT p.job, c.id AS chain
      FROM unnest(_chains, _afters) AS c (id, after)
      CROSS JOIN LATERAL (
        SELECT b.job FROM {schema}._blockers AS b
        WHERE b.chain = c.id AND b.job > coalesce(c.after, 0) AND b.state = 'open'
        ORDER BY b.job LIMIT {told_each}
      ) AS p
      LIMIT {told_at_once}
    ) AS f;
    EXIT WHEN jobs IS NULL;
    IF cardinality(jobs) >= {told_at_once} THEN
      PERFORM {schema}._ring_on(_chains, _afters, jobs, chains, NULL);
    ELSIF cardinality(jobs) >= {told_each} THEN
      PERFORM {schema}._ring_on(_chains, _afters, jobs, chains, {told_each});
    END IF;
    locked := ARRAY(
      SELECT j.id FROM {schema}._jobs AS j WHERE j.id = ANY (jobs) AND {blocked j}
      ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
    );
    IF _is_bad THEN
      locked := {schema}._lock_own_chains(locked);
    END IF;
    IF cardinality(locked) < (SELECT count(DISTINCT x.job) FROM unnest(jobs) AS x (job)) THEN
      SELECT t.jobs, t.chains INTO jobs, chains
      FROM {schema}._ring_locked(jobs, chains, locked) AS t;
    END IF;
    failed := {schema}._hear(jobs, chains, _is_bad, false, _at);
    told := told + cardinality(locked);
    rounds := rounds + 1;
    _chains := {schema}._write_ends({schema}._ends_of(failed), _at);
    _afters := NULL;
    _is_bad := true;
    IF told >= {told_each} OR rounds >= 100 THEN
      PERFORM {schema}._ring_chains(_chains);
      EXIT;
    END IF;
  END LOOP;
END $$;
