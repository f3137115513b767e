-- Cancel the current jobs of these chains, all or none; those that run are asked to stop. Answers the
-- chains as they are then.
CREATE OR REPLACE FUNCTION {schema}._cancel_chains(
  _ids bigint[], _tenant text, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  over record;
  jobs bigint[];
BEGIN
  _ids := {schema}._known_chains(_ids, _tenant);
  jobs := {schema}._lock_chains(_ids);
  PERFORM {schema}._known_chains(_ids, _tenant);
  SELECT c.id, c.state INTO over FROM unnest(_ids) WITH ORDINALITY AS x (id, place)
  JOIN {schema}._chains AS c ON c.id = x.id AND c.state <> 'open' ORDER BY x.place LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'chain % is % already; nothing was cancelled', over.id, over.state
      USING ERRCODE = 'WLCCL';
  END IF;
  PERFORM FROM {schema}._cancel_jobs(jobs, _now);
  RETURN {schema}._show_chains(_ids);
END $$;
