-- A chain as the public functions return it: a row of the view `chains`.
CREATE OR REPLACE FUNCTION {schema}._shown_chain(_id bigint) RETURNS {schema}.chain
LANGUAGE plpgsql AS $$
DECLARE
  shown {schema}.chain;
BEGIN
  SELECT c.* INTO shown FROM {schema}.chains AS c WHERE c.id = _id;
  RETURN shown;
END $$;
