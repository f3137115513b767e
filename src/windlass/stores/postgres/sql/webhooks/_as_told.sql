-- A job that a delivery has just completed, as it is told: given as it was, maybe in a batch. One that goes
-- on has a chain then.
CREATE OR REPLACE FUNCTION {schema}._as_told(j {schema}._jobs, _goes_on boolean) RETURNS {schema}._jobs
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF j.state = 'ready' THEN
    j.attempts := j.attempts + 1;
  END IF;
  IF _goes_on THEN
    j.chain := coalesce(j.chain, j.id);
  END IF;
  RETURN j;
END $$;
