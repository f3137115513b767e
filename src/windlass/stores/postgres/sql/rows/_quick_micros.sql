-- An instant not after now in microseconds, three times as fast as `_micros`: until the year 2100
-- seconds in a float8 are exact to the microsecond.
CREATE OR REPLACE FUNCTION {schema}._quick_micros(instant timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (date_part('epoch', {schema}._finite(instant)) * 1000000)::bigint;
