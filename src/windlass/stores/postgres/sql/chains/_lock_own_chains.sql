-- Lock the chains to which these jobs belong, whose rows the caller has locked, without waiting for any. The
-- jobs that belong to none, or to one that is locked now or is not there any more.
CREATE OR REPLACE FUNCTION {schema}._lock_own_chains(_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  own bigint[] := ARRAY(
    SELECT o.chain FROM (
      SELECT j.chain FROM {schema}._jobs AS j WHERE j.id = ANY (_jobs) OFFSET 0
    ) AS o WHERE o.chain IS NOT NULL
  );
  ours int8multirange;
BEGIN
  IF own = '{}' THEN
    RETURN _jobs;
  END IF;
  ours := {schema}._spans(ARRAY(
    SELECT c.id FROM {schema}._chains AS c WHERE c.id = ANY (own)
    ORDER BY c.id FOR NO KEY UPDATE SKIP LOCKED
  ));
  RETURN ARRAY(
    SELECT j.id FROM {schema}._jobs AS j
    WHERE j.id = ANY (_jobs) AND (
      j.chain IS NULL OR ours @> j.chain
      OR NOT EXISTS (SELECT FROM {schema}._chains AS c WHERE c.id = j.chain)
    ) ORDER BY j.id
  );
END $$;
