-- For how long after its end the key of a chain counts, given in microseconds; never longer than the
-- calendar.
CREATE OR REPLACE FUNCTION {schema}._window(micros bigint) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN make_interval(secs => greatest(0, least(coalesce(micros, 0) / 1e6, {longest}))::float8);
