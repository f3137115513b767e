-- Delete these batches, in which nothing is left. One that another call is just ending is left to
-- it.
CREATE OR REPLACE FUNCTION {schema}._drop_ended(_bases bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM {schema}._batches AS b WHERE b.base = ANY (ARRAY(
    SELECT c.base FROM {schema}._batches AS c WHERE c.base = ANY (_bases)
    FOR UPDATE SKIP LOCKED
  ));
END $$;
