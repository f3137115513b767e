-- An instant in microseconds since 1970.
CREATE OR REPLACE FUNCTION {schema}._micros(instant timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (extract(epoch FROM {schema}._finite(instant)) * 1000000)::bigint;
