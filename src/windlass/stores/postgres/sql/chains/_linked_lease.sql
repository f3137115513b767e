-- The rest of a lease whose job belongs to a chain, or waited for some.
CREATE OR REPLACE FUNCTION {schema}._linked_lease(j {schema}._jobs) RETURNS text LANGUAGE sql STABLE
RETURN concat_ws(',', {linked_lease});
