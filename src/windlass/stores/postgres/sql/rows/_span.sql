-- How long to keep a job, in seconds; what is no number, or longer than the calendar, is nothing.
CREATE OR REPLACE FUNCTION {schema}._span(keep float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN keep BETWEEN 0 AND {longest} THEN keep END;
