-- Answer bells without queues, which say that jobs are to look at chains, or chains to tell jobs. Behind
-- the latch, as `_admit` says. `kept` are the bells that could not be answered, because another
-- transaction has locked what they are about; `is_more` says that there is more to answer soon.
--
-- A job, with its own chain, is locked before the chains that it waits for, and a chain before it is looked
-- at. If it is open then, the call that ends it will see the job: it looks for jobs after it has written
-- the chain, and it has not done that. If it cannot be locked, it may be ending, and may have looked too
-- early: a bell for both stays.
CREATE OR REPLACE FUNCTION {schema}._answer_bells(
  _numbers bigint[], _at timestamptz, OUT kept bigint[], OUT is_more boolean
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  _jobs bigint[];
  _chains bigint[];
  _afters bigint[];
  _rung_ats timestamptz[];
  ours int8multirange;
  busy int8multirange;
  shared bigint[];
  pair_jobs bigint[];
  pair_chains bigint[];
  failed bigint[];
BEGIN
  SELECT array_agg(b.n), array_agg(b.job), array_agg(b.chain), array_agg(b.after),
    array_agg(b.rung_at)
  INTO _numbers, _jobs, _chains, _afters, _rung_ats FROM (
    SELECT d.* FROM {schema}._bells AS d WHERE d.tenant = '' AND d.n = ANY (_numbers)
    UNION ALL
    SELECT o.* FROM {schema}._bells AS o WHERE o.tenant > '' AND o.n = ANY (_numbers)
  ) AS b;
  -- The chains first that tell.
  IF array_position(_jobs, NULL) IS NOT NULL THEN
    shared := {schema}._share(ARRAY(
      SELECT b.chain FROM unnest(_jobs, _chains) AS b (job, chain) WHERE b.job IS NULL
    ));
    busy := {schema}._beside(shared, ARRAY(
      SELECT b.chain FROM unnest(_jobs, _chains) AS b (job, chain) WHERE b.job IS NULL
    ));
    PERFORM {schema}._tell(array_agg(t.chain), array_agg(t.after), true, _at) FROM (
      SELECT b.chain, min(coalesce(b.after, 0)) AS after
      FROM unnest(_jobs, _chains, _afters) AS b (job, chain, after)
      WHERE b.job IS NULL AND NOT busy @> b.chain
      GROUP BY b.chain
    ) AS t HAVING count(*) > 0;
    kept := ARRAY(
      SELECT b.n FROM unnest(_numbers, _jobs, _chains) AS b (n, job, chain)
      WHERE b.job IS NULL AND busy @> b.chain
    );
  ELSE
    kept := '{}';
  END IF;
  -- Then the jobs that look.
  ours := {schema}._spans({schema}._lock_own_chains(ARRAY(
    SELECT j.id FROM {schema}._jobs AS j
    WHERE j.id = ANY (_jobs) AND j.state IN ('blocked', 'failed')
    ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
  )));
  kept := kept || ARRAY(
    SELECT b.n FROM unnest(_numbers, _jobs) AS b (n, job)
    JOIN {schema}._jobs AS j ON j.id BETWEEN b.job AND b.job AND j.state IN ('blocked', 'failed')
    WHERE NOT ours @> b.job
  );
  SELECT array_agg(p.job), array_agg(p.chain) INTO pair_jobs, pair_chains FROM (
    SELECT n.job, n.chain
    FROM (SELECT DISTINCT b.job FROM unnest(_jobs, _chains) AS b (job, chain)
          WHERE b.chain IS NULL AND ours @> b.job) AS b
    JOIN {schema}._blockers AS n ON n.job BETWEEN b.job AND b.job AND n.state <> 'met'
    UNION
    SELECT n.job, n.chain
    FROM unnest(_jobs, _chains) AS b (job, chain)
    JOIN {schema}._blockers AS n
      ON (n.chain, n.job) BETWEEN (b.chain, b.job) AND (b.chain, b.job) AND n.state <> 'met'
    WHERE ours @> b.job
  ) AS p;
  IF pair_jobs IS NOT NULL THEN
    shared := {schema}._share(pair_chains);
    busy := {schema}._beside(shared, pair_chains);
    -- Of a job that was to look at all its chains, a bell for each that is locked stays.
    INSERT INTO {schema}._bells (tenant, job, chain, rung_at)
    SELECT j.tenant, p.job, p.chain, clock_timestamp()
    FROM unnest(pair_jobs, pair_chains) AS p (job, chain)
    JOIN {schema}._jobs AS j ON j.id BETWEEN p.job AND p.job
    WHERE busy @> p.chain AND NOT EXISTS (
      SELECT FROM unnest(_jobs, _chains) AS b (job, chain)
      WHERE b.job = p.job AND b.chain = p.chain
    );
    kept := kept || ARRAY(
      SELECT b.n FROM unnest(_numbers, _jobs, _chains) AS b (n, job, chain)
      WHERE ours @> b.job AND busy @> b.chain
    );
    SELECT array_agg(p.job), array_agg(p.chain) INTO pair_jobs, pair_chains
    FROM unnest(pair_jobs, pair_chains) AS p (job, chain) WHERE NOT busy @> p.chain;
    failed := {schema}._hear(pair_jobs, pair_chains, true, false, _at);
    IF failed <> '{}' THEN
      PERFORM {schema}._end_chains({schema}._ends_of(failed), _at);
    END IF;
    kept := kept || {schema}._look_back(_numbers, _jobs, pair_jobs, pair_chains, _at);
  END IF;
  -- One that has rung just now and could not be answered is tried again soon: another end is about to
  -- be committed. Later ones wait for the next claim.
  is_more := cardinality(kept) < cardinality(_numbers) OR EXISTS (
    SELECT FROM unnest(_numbers, _rung_ats) AS b (n, rung_at)
    WHERE b.n = ANY (kept) AND b.rung_at > clock_timestamp() - interval '100 ms'
  );
END $$;
