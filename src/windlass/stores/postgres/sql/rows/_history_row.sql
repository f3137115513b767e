-- A kept job, in the same way.
CREATE OR REPLACE FUNCTION {schema}._history_row(h {schema}._history) RETURNS json
LANGUAGE sql STABLE
RETURN json_build_array({history_row});
