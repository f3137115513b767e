-- A completed row goes to the history, for as long as it says.
CREATE OR REPLACE FUNCTION {schema}._file(j {schema}._jobs, _output json, _at timestamptz)
RETURNS void LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._history ({history}) VALUES ({history_of_job});
END;
