-- Flags as a plain list; what is none has no flags.
CREATE OR REPLACE FUNCTION {schema}._listed(flags text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN array_ndims(flags) = 1 THEN array_remove(flags, NULL) END;
