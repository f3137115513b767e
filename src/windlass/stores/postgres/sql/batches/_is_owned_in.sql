-- Whether this token owns the job. `_bases` are the batches that are there, of those the token may
-- be of: the caller has looked for them, so that this is no call.
CREATE OR REPLACE FUNCTION {schema}._is_owned_in(j {schema}._jobs, _token bigint, _bases bigint[])
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).state = 'running' AND (j).token = _token
  OR {ready_undelivered (j)} AND _token - (j).id = ANY (_bases);
