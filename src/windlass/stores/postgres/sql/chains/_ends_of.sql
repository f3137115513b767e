-- How chains end whose current jobs are these, which have failed.
CREATE OR REPLACE FUNCTION {schema}._ends_of(_failed bigint[]) RETURNS {schema}._chain_end[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT ROW(j.chain, 'failed', NULL, j.last_error, j.step + 1, NULL)::{schema}._chain_end
    FROM {schema}._jobs AS j WHERE j.id = ANY (_failed) AND j.chain IS NOT NULL
  );
END $$;
