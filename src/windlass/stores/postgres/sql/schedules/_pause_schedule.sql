-- Fire a schedule no more until it is resumed.
CREATE OR REPLACE FUNCTION {schema}._pause_schedule(
  _tenant text, _identifier text, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  UPDATE {schema}._schedules AS s
  SET paused_at = coalesce(s.paused_at, _now, statement_timestamp())
  WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
$$;
