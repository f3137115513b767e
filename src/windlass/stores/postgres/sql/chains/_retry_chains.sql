-- Run failed and cancelled jobs of chains again, all or none; jobs that failed because of these chains
-- wait again. Answers the chains that were opened.
CREATE OR REPLACE FUNCTION {schema}._retry_chains(
  _ids bigint[], _tenant text, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  jobs bigint[];
  opened bigint[];
BEGIN
  _ids := {schema}._known_chains(_ids, _tenant);
  jobs := {schema}._lock_chains(_ids);
  PERFORM {schema}._known_chains(_ids, _tenant);
  SELECT coalesce(array_agg(c.id ORDER BY x.place), '{}'),
    coalesce(array_agg(j.id ORDER BY x.place), '{}')
  INTO opened, jobs
  FROM unnest(_ids) WITH ORDINALITY AS x (id, place)
  JOIN {schema}._chains AS c ON c.id = x.id AND c.state IN ('failed', 'cancelled')
  JOIN {schema}._jobs AS j ON j.id = ANY (jobs) AND j.chain = c.id;
  PERFORM {schema}._check_retry(jobs, opened);
  -- Open before their jobs look at one another's chains.
  PERFORM {schema}._open_chains(opened);
  PERFORM {schema}._run_again(jobs, at);
  PERFORM {schema}._bring_back(jobs, at);
  PERFORM {schema}._restore_all(opened, at);
  RETURN {schema}._show_chains(opened);
END $$;
