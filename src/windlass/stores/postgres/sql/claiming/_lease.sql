-- One delivery as a JSON array, in the order of `windlass.store.records.Lease`. `more` is 1 where
-- the row does not count this delivery yet. JSON put together as text costs half of what
-- `json_build_array` does.
CREATE OR REPLACE FUNCTION {schema}._lease(
  j {schema}._jobs, base bigint, more integer, worker json
) RETURNS text LANGUAGE sql STABLE
RETURN '[' || concat_ws(',', {lease}) || ']';
