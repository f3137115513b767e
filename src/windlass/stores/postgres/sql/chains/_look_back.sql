-- Failed jobs among these pairs of jobs and chains, which the caller has locked, wait again where the
-- chain because of which they failed was opened since: by one that could not lock the job, or had not
-- seen it. It may have completed in the meantime. Answers bells that must stay: where the key of a job's own chain is being taken
-- just now, it is not waited for.
CREATE OR REPLACE FUNCTION {schema}._look_back(
  _numbers bigint[], _jobs bigint[], _pair_jobs bigint[], _pair_chains bigint[], _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET lock_timeout = '5ms' SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  back bigint[];
BEGIN
  back := ARRAY(
    SELECT DISTINCT p.job FROM unnest(_pair_jobs, _pair_chains) AS p (job, chain)
    JOIN {schema}._jobs AS j ON j.id BETWEEN p.job AND p.job AND {failed j}
    JOIN {schema}._blockers AS b
      ON (b.chain, b.job) BETWEEN (p.chain, p.job) AND (p.chain, p.job) AND b.state = 'failed'
    JOIN {schema}._chains AS c ON c.id BETWEEN p.chain AND p.chain AND c.state IN ('open', 'completed')
      AND c.openings > b.openings
  );
  IF back = '{}' THEN
    RETURN back;
  END IF;
  BEGIN
    PERFORM {schema}._reopen({schema}._restore(back, _at), _at);
  EXCEPTION WHEN lock_not_available OR serialization_failure THEN
    RETURN ARRAY(
      SELECT b.n FROM unnest(_numbers, _jobs) AS b (n, job) WHERE b.job = ANY (back)
    );
  END;
  RETURN '{}';
END $$;
