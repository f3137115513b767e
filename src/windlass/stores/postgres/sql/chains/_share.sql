-- Lock these chains against being written, without waiting for any; those that are locked now.
CREATE OR REPLACE FUNCTION {schema}._share(_chains bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT c.id FROM {schema}._chains AS c WHERE c.id = ANY (_chains)
    ORDER BY c.id FOR SHARE SKIP LOCKED
  );
END $$;
