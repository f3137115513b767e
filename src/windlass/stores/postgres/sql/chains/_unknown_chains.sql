-- The chains that these groups, as `_add_links` says, name as blockers and that are not there for their
-- tenant, in the order in which they are named.
CREATE OR REPLACE FUNCTION {schema}._unknown_chains(_groups json) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  RETURN ARRAY(
    SELECT r.ref
    FROM ROWS FROM (json_to_recordset(_groups) AS (tenant text, places integer[], blockers bigint[]))
      WITH ORDINALITY AS g (tenant, places, blockers, n)
    CROSS JOIN LATERAL unnest(g.blockers) WITH ORDINALITY AS r (ref, n)
    WHERE r.ref >= 0 AND NOT EXISTS (
      SELECT FROM {schema}._chains AS c WHERE c.id = r.ref AND c.tenant = coalesce(g.tenant, '')
    )
    GROUP BY r.ref ORDER BY min(g.places[1]), min(r.n)
  );
END $$;
