-- Whether this token owns the job.
CREATE OR REPLACE FUNCTION {schema}._is_owned(j {schema}._jobs, _token bigint) RETURNS boolean
LANGUAGE sql STABLE
RETURN {schema}._is_owned_in(j, _token, ARRAY(
  SELECT b.base FROM {schema}._batches AS b WHERE b.base = _token - (j).id
));
