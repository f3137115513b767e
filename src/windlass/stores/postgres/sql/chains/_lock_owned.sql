-- Lock these jobs and their chains, each if its token owns it and no other transaction has locked it; at
-- each place its id if that is so, else NULL.
CREATE OR REPLACE FUNCTION {schema}._lock_owned(_ids bigint[], _tokens bigint[], _bases bigint[])
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ours int8multirange := {schema}._spans({schema}._lock_own_chains(ARRAY(
    SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
    JOIN {schema}._jobs AS k ON k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, _bases)
    ORDER BY x.id FOR UPDATE OF k SKIP LOCKED
  )));
BEGIN
  RETURN ARRAY(
    SELECT CASE WHEN ours @> x.id THEN x.id END
    FROM unnest(_ids) WITH ORDINALITY AS x (id, place) ORDER BY x.place
  );
END $$;
