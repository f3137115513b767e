-- Why a job cannot be completed so, that it goes on with `_nexts` and starts chains, groups as `_begin`
-- says: it names chains that are not there, or its own chain would wait for itself. NULL where it
-- can, and 'busy' where another call is just looking for the same. For chains that are there already one
-- such search at a time is made for a tenant, until the end of its transaction: two at once would not
-- see what the other is about to write.
CREATE OR REPLACE FUNCTION {schema}._refuse_links(
  j {schema}._jobs, _nexts json, _starts json, _keyed json, _at timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  own bigint := coalesce(j.chain, j.id);
  unknown bigint[] := {schema}._unknown_chains(_starts) || {schema}._unknown_chains(_keyed)
    || {schema}._unknown_chains(_nexts);
  waited bigint[];
BEGIN
  IF unknown <> '{}' THEN
    RETURN 'unknown:' || array_to_string(unknown, ',');
  END IF;
  -- The chains that are there already and for which the next job would wait, itself or through chains
  -- that start with it. One of these may be another before it, which has the key.
  WITH RECURSIVE keyed (place, key, blockers, there) AS (
    SELECT p.place, g.chain_key, coalesce(g.blockers, '{}'), {schema}._chain_of_key(
      coalesce(g.tenant, ''), g.chain_key, coalesce(g.key_window, 0), NULL, _at)
    FROM json_to_recordset(_keyed) AS g (
      places integer[], blockers bigint[], tenant text, chain_key text, key_window bigint)
    CROSS JOIN LATERAL unnest(g.places) AS p (place)
  ),
  links (place, ref) AS (
    SELECT p.place, r.ref
    FROM json_to_recordset(_starts) AS g (places integer[], blockers bigint[])
    CROSS JOIN LATERAL unnest(g.places) AS p (place)
    CROSS JOIN LATERAL unnest(g.blockers) AS r (ref)
    UNION ALL
    SELECT k.place, r.ref
    FROM keyed AS k
    CROSS JOIN LATERAL unnest(coalesce(
      (SELECT b.blockers FROM keyed AS b
       WHERE b.key = k.key AND b.place <= k.place AND b.there IS NULL
       ORDER BY b.place LIMIT 1),
      ARRAY[k.there]
    )) AS r (ref)
  ),
  walked (ref) AS (
    SELECT r.ref FROM json_to_recordset(_nexts) AS g (blockers bigint[])
    CROSS JOIN LATERAL unnest(g.blockers) AS r (ref)
    UNION
    SELECT l.ref FROM walked AS w JOIN links AS l ON l.place = -w.ref WHERE w.ref < 0
  )
  SELECT coalesce(array_agg(w.ref), '{}') INTO waited FROM walked AS w WHERE w.ref > 0;
  IF NOT EXISTS (
    SELECT FROM {schema}._chains AS c WHERE c.id = ANY (waited) AND c.state <> 'completed'
  ) THEN
    RETURN NULL;
  END IF;
  IF NOT pg_try_advisory_xact_lock(hashtextextended(j.tenant, {knots})) THEN
    RETURN 'busy';
  END IF;
  IF {schema}._is_reached(own, waited) THEN
    RETURN replace('refused:' || {own_chain}, '{0}', own::text);
  END IF;
  RETURN NULL;
END $$;
