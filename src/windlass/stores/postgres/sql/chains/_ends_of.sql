-- How chains end whose current jobs are these, which have failed.
CREATE OR REPLACE FUNCTION {schema}._ends_of(_failed bigint[]) RETURNS {schema}._chain_end[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT ROW(f.chain, 'failed', NULL, f.last_error, f.step + 1, NULL)::{schema}._chain_end
    FROM (
      SELECT j.chain, j.last_error, j.step FROM {schema}._jobs AS j
      WHERE j.id = ANY (_failed) OFFSET 0
    ) AS f WHERE f.chain IS NOT NULL
  );
END $$;
