-- Know a schedule no more; it, as it was.
CREATE OR REPLACE FUNCTION {schema}._forget_schedule(_identifier text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  DELETE FROM {schema}._schedules AS s WHERE s.identifier = _identifier RETURNING s.*
$$;
