-- A payload that is not too large; NULL is {}.
CREATE OR REPLACE FUNCTION {schema}._fitting(payload json, most bigint) RETURNS json LANGUAGE sql STABLE
RETURN CASE
  WHEN payload IS NULL THEN '{}'::json
  WHEN octet_length(payload::text) > most THEN {schema}._too_large(payload, most)
  ELSE payload
END;
