-- Make a delivery that of another worker, who gets a lease of `_lease` seconds. Locks that worker
-- first, then the job, and waits for no job.
CREATE OR REPLACE FUNCTION {schema}._move(
  _id bigint, _token bigint, _chain bigint, _worker text, _lease float8,
  _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
  number bigint;
BEGIN
  number := {schema}._beat(_worker, _lease, _now);
  PERFORM {schema}._unbatch_owned(ARRAY[_id], ARRAY[_token]);
  UPDATE {schema}._jobs AS j SET worker = number
  WHERE j.id = (
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.id = _id AND k.token = _token AND k.state = 'running'
    FOR NO KEY UPDATE SKIP LOCKED
  );
  RETURN CASE WHEN FOUND THEN 'applied' ELSE {schema}._refusal(_id, _token, _chain) END;
END $$;
