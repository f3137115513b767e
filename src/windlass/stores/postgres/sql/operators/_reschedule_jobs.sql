-- The same for jobs that are run at another time, or otherwise.
CREATE OR REPLACE FUNCTION {schema}._reschedule_jobs(
  _ids bigint[], _run_at timestamptz, _priority integer, _attempts integer,
  _max_attempts integer, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('reschedule', NULL, _run_at, _priority, _attempts, _max_attempts)::{schema}._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM {schema}._jobs AS k WHERE k.id = ANY (_ids);
END $$;
