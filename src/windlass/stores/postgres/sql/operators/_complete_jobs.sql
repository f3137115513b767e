-- The same for Python, which wants whole rows.
CREATE OR REPLACE FUNCTION {schema}._complete_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  rows {schema}._jobs[];
BEGIN
  _ids := ({schema}._unbatch(_ids, false)).locked;
  rows := ARRAY(SELECT k FROM {schema}._jobs AS k WHERE k.id = ANY (_ids));
  _ids := ARRAY(
    SELECT c.id FROM {schema}._change(
      _ids, ROW('complete', NULL, NULL, NULL, NULL, NULL)::{schema}._edit, at) AS c
  );
  RETURN QUERY
  SELECT ({schema}._as_completed(k, at)).* FROM unnest(rows) AS k WHERE k.id = ANY (_ids);
END $$;
