-- A job as it is when it was completed.
CREATE OR REPLACE FUNCTION {schema}._as_completed(j {schema}._jobs, _at timestamptz)
RETURNS {schema}._jobs LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.state := 'completed';
  j.updated_at := _at;
  j.finished_at := _at;
  RETURN j;
END $$;
