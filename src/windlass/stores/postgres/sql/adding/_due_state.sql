-- Whether it may start, must wait its turn in its queue, or is not due yet.
CREATE OR REPLACE FUNCTION {schema}._due_state(run_at timestamptz, queue text, at timestamptz)
RETURNS {schema}._job_state LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN run_at > at THEN 'scheduled'::{schema}._job_state
  WHEN queue IS NULL THEN 'ready'::{schema}._job_state
  ELSE 'waiting'::{schema}._job_state
END;
