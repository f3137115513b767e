-- An instant that every clock can show: infinity is the end of the year 9999. NULL stays NULL.
CREATE OR REPLACE FUNCTION {schema}._finite(instant timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN instant IS NOT NULL THEN
  least(greatest(instant, timestamptz '1970-01-01 00:00:00+00'), {last_instant})
END;
