-- These chains, each once, in the order given; refused where one is not there for the tenant (NULL sees
-- all).
CREATE OR REPLACE FUNCTION {schema}._known_chains(_ids bigint[], _tenant text) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  asked bigint[] := ARRAY(
    SELECT x.id FROM unnest(_ids) WITH ORDINALITY AS x (id, place)
    GROUP BY x.id ORDER BY min(x.place)
  );
BEGIN
  PERFORM {schema}._refuse_unknown(ARRAY(
    SELECT x.id FROM unnest(asked) WITH ORDINALITY AS x (id, place)
    WHERE NOT EXISTS (
      SELECT FROM {schema}._chains AS c
      WHERE c.id = x.id AND (_tenant IS NULL OR c.tenant = _tenant)
    ) ORDER BY x.place
  ));
  RETURN asked;
END $$;
