-- Know a schedule no more; it, as it was.
CREATE OR REPLACE FUNCTION {schema}._forget_schedule(
  _tenant text, _identifier text, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  DELETE FROM {schema}._schedules AS s WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
$$;
