-- What came while it was paused is passed over.
CREATE OR REPLACE FUNCTION {schema}._resume_schedule(
  _tenant text, _identifier text, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  UPDATE {schema}._schedules AS s SET
    floor_at = CASE WHEN s.paused_at IS NULL THEN s.floor_at
      ELSE greatest(s.floor_at, coalesce(_now, clock_timestamp())) END,
    paused_at = NULL
  WHERE s.tenant = _tenant AND s.identifier = _identifier RETURNING s.*
$$;
