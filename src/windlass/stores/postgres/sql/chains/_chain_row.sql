-- A chain as one JSON array, in the order of `windlass.store.records.ChainRow`.
CREATE OR REPLACE FUNCTION {schema}._chain_row(c {schema}._chains) RETURNS json LANGUAGE sql STABLE
RETURN json_build_array({chain_row});
