-- Jobs that failed because of these chains, which are open again, wait again; so do jobs that failed
-- because of their chains, and so on. A job that another transaction has locked is not waited for: a
-- claim is to look at it.
CREATE OR REPLACE FUNCTION {schema}._restore_all(_chains bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  jobs bigint[];
  locked bigint[];
  ours int8multirange;
BEGIN
  WHILE _chains <> '{}' LOOP
    jobs := ARRAY(
      SELECT DISTINCT b.job FROM unnest(_chains) AS c (id)
      JOIN {schema}._blockers AS b ON b.chain = c.id AND b.state = 'failed'
    );
    EXIT WHEN jobs = '{}';
    locked := ARRAY(
      SELECT j.id FROM {schema}._jobs AS j WHERE j.id = ANY (jobs) AND {failed j}
      ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
    );
    ours := {schema}._spans(locked);
    PERFORM {schema}._ring_jobs(ARRAY(
      SELECT j.id FROM {schema}._jobs AS j
      WHERE j.id = ANY (jobs) AND {failed j} AND NOT ours @> j.id
    ));
    _chains := {schema}._restore(locked, _at);
    PERFORM {schema}._open_chains(_chains);
  END LOOP;
END $$;
