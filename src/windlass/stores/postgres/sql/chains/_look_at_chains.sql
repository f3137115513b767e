-- What `_stand` does, but for the chains of those jobs that fail: the caller ends them.
CREATE OR REPLACE FUNCTION {schema}._look_at_chains(_jobs bigint[], _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  jobs bigint[];
  chains bigint[];
  failed bigint[];
BEGIN
  SELECT array_agg(b.job), array_agg(b.chain) INTO jobs, chains
  FROM unnest(_jobs) AS x (id)
  JOIN {schema}._blockers AS b ON b.job BETWEEN x.id AND x.id AND b.state = 'open'
  LEFT JOIN {schema}._chains AS c ON c.id BETWEEN b.chain AND b.chain
  WHERE c.id IS NULL OR c.state <> 'open';
  failed := {schema}._hear(jobs, chains, true, true, _at);
  PERFORM {schema}._ring_jobs(failed || ARRAY(
    SELECT j.id FROM {schema}._jobs AS j WHERE j.id = ANY (_jobs) AND {blocked j}
  ));
  RETURN failed;
END $$;
