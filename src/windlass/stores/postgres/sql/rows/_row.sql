-- A job as one JSON array, in the order of `windlass.store.records.Row`. The name of its worker is
-- the caller's to look up: with a query in its body this could not be inlined, and would cost ten
-- times as much.
CREATE OR REPLACE FUNCTION {schema}._row(j {schema}._jobs, worker text) RETURNS json
LANGUAGE sql STABLE
RETURN json_build_array({job_row});
