-- Whether this token owns the job.
CREATE OR REPLACE FUNCTION {schema}._is_held(j {schema}._jobs, _token bigint) RETURNS boolean
LANGUAGE sql STABLE
RETURN (j).state = 'running' AND (j).token = _token
  OR (j).state = 'ready' AND (j).deliveries = 0
    AND EXISTS (SELECT FROM {schema}._batches AS b WHERE b.base = _token - (j).id);
