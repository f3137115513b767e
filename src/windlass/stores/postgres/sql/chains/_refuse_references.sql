-- Refuse to delete these chains where an open job of another chain names one that is open or completed.
CREATE OR REPLACE FUNCTION {schema}._refuse_references(_doomed bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  going int8multirange := {schema}._spans(_doomed);
  jobs bigint[];
  chains bigint[];
BEGIN
  SELECT array_agg(r.job ORDER BY r.place, r.job), array_agg(r.chain ORDER BY r.place, r.job)
  INTO jobs, chains FROM (
    SELECT DISTINCT ON (j.id) j.id AS job, x.id AS chain, x.place
    FROM unnest(_doomed) WITH ORDINALITY AS x (id, place)
    JOIN {schema}._chains AS c ON c.id = x.id AND c.state IN ('open', 'completed')
    JOIN {schema}._blockers AS b ON b.chain = c.id
    JOIN {schema}._jobs AS j ON j.id = b.job
      AND j.state IN ('blocked', 'scheduled', 'waiting', 'ready', 'running')
    WHERE j.chain IS NULL OR NOT going @> j.chain
    ORDER BY j.id, x.place
  ) AS r;
  IF jobs IS NOT NULL THEN
    RAISE EXCEPTION 'chain % cannot be deleted: job % names it as a blocker (% in all); cancel these jobs first, or wait for them',
      chains[1], jobs[1], cardinality(jobs)
      USING ERRCODE = 'WLBRF', DETAIL = array_to_string(jobs, ',');
  END IF;
END $$;
