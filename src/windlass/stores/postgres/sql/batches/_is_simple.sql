-- A job that is only what its task and payload say: no other job waits for it or has its key, it waits for
-- none, and when it ends nothing is left of it and nothing is posted.
CREATE OR REPLACE FUNCTION {schema}._is_simple(j {schema}._jobs) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).key IS NULL AND (j).queue IS NULL AND (j).keep IS NULL
  AND (j).chain IS NULL AND (j).blockers_total IS NULL AND NOT {told (j)};
