-- Refuse a next job of this chain that would wait for the chain itself. One such search at a time is made
-- for a tenant, as `_refuse_links` says.
CREATE OR REPLACE FUNCTION {schema}._refuse_cycle(c {schema}._chains, _nexts json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  named bigint[] := ARRAY(
    SELECT r.ref FROM json_to_recordset(_nexts) AS g (blockers bigint[])
    CROSS JOIN LATERAL unnest(g.blockers) AS r (ref)
  );
BEGIN
  IF named = '{}' THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended(c.tenant, {knots}));
  IF {schema}._is_reached(c.id, named) THEN
    RAISE EXCEPTION 'chain % would wait for itself; name other blockers', c.id
      USING ERRCODE = 'WLBRF', DETAIL = c.id::text;
  END IF;
END $$;
