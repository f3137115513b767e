-- A job as the public functions return it.
CREATE OR REPLACE FUNCTION {schema}._public(j {schema}._jobs, worker text) RETURNS {schema}.job
LANGUAGE sql STABLE
RETURN {schema}._shown(j, worker, (j).state, (j).updated_at);
