-- Forget what these jobs, which are gone, waited for.
CREATE OR REPLACE FUNCTION {schema}._drop_blockers(_jobs bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  IF _jobs IS NOT NULL THEN
    DELETE FROM {schema}._blockers AS b WHERE b.job = ANY (_jobs);
  END IF;
END $$;
