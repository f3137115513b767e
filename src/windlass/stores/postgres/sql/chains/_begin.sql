-- Begin chains: `_starts` are groups, as `_add_links` says, of those without keys, and `_keyed` of those
-- with. `_ids` has the id of each, at its place. `_ended` is a chain that ends in the same step: it
-- leaves its key to its successor. Answers at each place the chain that was asked for: a new one, or
-- the one that has the key. Keys are taken in one order, so that two calls at once never deadlock.
CREATE OR REPLACE FUNCTION {schema}._begin(
  _starts json, _keyed json, _ids bigint[], _ended bigint, _looks boolean, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  chains bigint[] := _ids;
  start record;
BEGIN
  IF _keyed IS NOT NULL THEN
    FOR start IN
      SELECT p.place, coalesce(g.tenant, '') AS tenant, g.chain_key AS key,
        coalesce(g.key_window, 0) AS key_window, {schema}._accepted(
          g.task, g.queue, g.chain_key, g.max_attempts, g.flags, g.keep, g.tenant) AS task,
        {schema}._sound(coalesce(p.payload, 'null')) AS payload
      FROM json_to_recordset(_keyed) AS g ({link_typed})
      CROSS JOIN LATERAL ROWS FROM (json_array_elements(g.payloads), unnest(g.places))
        AS p (payload, place)
      ORDER BY g.chain_key, g.tenant, p.place
    LOOP
      IF start.key_window NOT BETWEEN 0 AND {longest} * 1000000 THEN
        RAISE EXCEPTION 'A key cannot count for % microseconds', start.key_window
          USING ERRCODE = '22023';
      END IF;
      chains[start.place] := {schema}._hold_key(
        start.tenant, start.key, start.key_window, _ids[start.place], start.task, start.payload,
        _ended, _at);
      IF chains[start.place] <> _ids[start.place] THEN
        _ids[start.place] := NULL;
      END IF;
    END LOOP;
  END IF;
  PERFORM {schema}._add_links(_starts, _ids, chains, NULL, chains, NULL, true, _looks, _at);
  PERFORM {schema}._add_links(_keyed, _ids, chains, NULL, chains, NULL, false, _looks, _at);
  RETURN chains;
END $$;
