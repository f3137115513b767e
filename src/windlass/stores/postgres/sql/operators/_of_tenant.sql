-- Those of these jobs that are the tenant's; all of them where it is NULL. No job changes its tenant,
-- so the answer stays true.
CREATE OR REPLACE FUNCTION {schema}._of_tenant(_ids bigint[], _tenant text) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
  IF _tenant IS NULL THEN
    RETURN _ids;
  END IF;
  RETURN ARRAY(
    SELECT j.id FROM {schema}._jobs AS j WHERE j.id = ANY (_ids) AND j.tenant = _tenant
  );
END $$;
