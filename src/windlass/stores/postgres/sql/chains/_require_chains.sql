-- Refuse groups, as `_add_links` says, that name chains which are not there for their tenant, or that start
-- with them: only what a delivery starts has these.
CREATE OR REPLACE FUNCTION {schema}._require_chains(_groups json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM json_to_recordset(_groups) AS g (blockers bigint[])
    CROSS JOIN LATERAL unnest(g.blockers) AS r (ref) WHERE (r.ref > 0) IS NOT TRUE
  ) THEN
    RAISE EXCEPTION 'Blockers must be ids of chains' USING ERRCODE = '22023';
  END IF;
  PERFORM {schema}._refuse_unknown({schema}._unknown_chains(_groups));
END $$;
