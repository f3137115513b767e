-- These chains have ended: a claim is to tell the jobs that wait for them.
CREATE OR REPLACE FUNCTION {schema}._ring_chains(_chains bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF _chains <> '{}' THEN
    INSERT INTO {schema}._bells (tenant, chain, rung_at)
    SELECT c.tenant, c.id, clock_timestamp() FROM {schema}._chains AS c WHERE c.id = ANY (_chains);
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;
