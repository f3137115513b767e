-- Whether one of these chains is `_own`, or waits for it; or would, if what failed were retried.
CREATE OR REPLACE FUNCTION {schema}._is_reached(_own bigint, _chains bigint[]) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  RETURN EXISTS (
    WITH RECURSIVE reached (chain) AS (
      SELECT x.chain FROM unnest(_chains) AS x (chain)
      UNION
      SELECT b.chain FROM reached AS r
      JOIN {schema}._jobs AS j ON j.chain = r.chain AND j.blockers_total IS NOT NULL
      JOIN {schema}._blockers AS b ON b.job = j.id AND b.state <> 'met'
      WHERE r.chain <> _own
    )
    SELECT FROM reached AS r WHERE r.chain = _own
  );
END $$;
