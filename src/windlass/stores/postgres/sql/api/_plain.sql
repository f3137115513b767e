-- Flags as a plain list without NULLs; no flags are NULL.
CREATE OR REPLACE FUNCTION {schema}._plain(flags text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN nullif(ARRAY(
  SELECT f.flag FROM unnest(flags) WITH ORDINALITY AS f (flag, place)
  WHERE f.flag IS NOT NULL ORDER BY f.place
), '{}');
