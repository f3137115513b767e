-- Not all jobs that wait for these chains were told: of each chain, those up to the last in these pairs of
-- jobs and chains were, and before that those up to the job in `_afters`. A claim is to go on after it with
-- every chain that has `_most` jobs here, or with all of them where that is NULL. A chain may be deleted by
-- now: so the tenant is that of a job.
CREATE OR REPLACE FUNCTION {schema}._ring_on(
  _chains bigint[], _afters bigint[], _pair_jobs bigint[], _pair_chains bigint[], _most integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}._bells (tenant, chain, after, rung_at)
  SELECT j.tenant, x.id, coalesce(f.last, x.after), clock_timestamp()
  FROM unnest(_chains, _afters) AS x (id, after)
  LEFT JOIN (
    SELECT p.chain, max(p.job) AS last, count(*) AS count
    FROM unnest(_pair_jobs, _pair_chains) AS p (job, chain) GROUP BY p.chain
  ) AS f ON f.chain = x.id
  CROSS JOIN LATERAL (
    SELECT k.tenant FROM {schema}._blockers AS b JOIN {schema}._jobs AS k ON k.id = b.job
    WHERE b.chain = x.id AND b.job > coalesce(f.last, x.after, 0) LIMIT 1
  ) AS j
  WHERE _most IS NULL OR f.count >= _most;
  IF FOUND THEN
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;
