-- A claim is to look at every chain that these jobs wait for.
CREATE OR REPLACE FUNCTION {schema}._ring_jobs(_jobs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF _jobs <> '{}' THEN
    INSERT INTO {schema}._bells (tenant, job, rung_at)
    SELECT j.tenant, j.id, clock_timestamp() FROM {schema}._jobs AS j WHERE j.id = ANY (_jobs);
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;
