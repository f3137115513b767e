-- A chain as one JSON array, in the order of `windlass.store.records.ChainRow`, put together as `_lease` is.
CREATE OR REPLACE FUNCTION {schema}._chain_text(c {schema}._chains) RETURNS text LANGUAGE sql STABLE
RETURN '[' || concat_ws(',', {chain_text}) || ']';
