-- A job of a batch as the running row it stands for.
CREATE OR REPLACE FUNCTION {schema}._as_running(
  j {schema}._jobs, _base bigint, _worker bigint, _claimed_at timestamptz
) RETURNS {schema}._jobs LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.state := 'running';
  j.token := _base + j.id;
  j.worker := _worker;
  j.claimed_at := _claimed_at;
  j.attempts := j.attempts + 1;
  j.deliveries := 1;
  RETURN j;
END $$;
