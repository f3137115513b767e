-- Of these chains, those that are there and are not among `_shared`: another transaction has locked them.
-- In a statement that begins after the locks were taken: one that was deleted meanwhile is not there.
CREATE OR REPLACE FUNCTION {schema}._beside(_shared bigint[], _chains bigint[])
RETURNS int8multirange LANGUAGE plpgsql AS $$
DECLARE
  ours int8multirange := {schema}._spans(_shared);
BEGIN
  RETURN {schema}._spans(ARRAY(
    SELECT c.id FROM {schema}._chains AS c WHERE c.id = ANY (_chains) AND NOT ours @> c.id
  ));
END $$;
