-- The same for jobs that fail for good.
CREATE OR REPLACE FUNCTION {schema}._fail_jobs(_ids bigint[], _reason text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
BEGIN
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('fail', _reason, NULL, NULL, NULL, NULL)::{schema}._edit,
      coalesce(_now, statement_timestamp())) AS c
  );
  RETURN QUERY SELECT k.* FROM {schema}._jobs AS k WHERE k.id = ANY (_ids);
END $$;
