-- Forget chains that completed `_keep` seconds ago, or failed or were cancelled `_keep_failed` seconds ago,
-- and as long ago as their window says, at most `_limit`; how many. One that an open job names stays.
-- Where many stay they would be met again by every call, at the head of what it walks: those beyond the
-- first are put off for a while.
CREATE OR REPLACE FUNCTION {schema}._prune_chains(
  _limit integer, _keep float8, _keep_failed float8, _at timestamptz
) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  kept interval;
  old bigint[];
  gone integer;
  count integer := 0;
BEGIN
  FOR n IN 1 .. 3 LOOP
    EXIT WHEN count >= _limit;
    kept := make_interval(secs => CASE WHEN n = 1 THEN _keep ELSE _keep_failed END);
    old := ARRAY(
      SELECT c.id FROM {schema}._chains AS c
      WHERE c.state = (ARRAY['completed', 'failed', 'cancelled'])[n]::{schema}._chain_state
        AND c.state <> 'open' AND c.aged_at <= _at - kept
      ORDER BY c.aged_at LIMIT _limit - count FOR UPDATE SKIP LOCKED
    );
    CONTINUE WHEN old = '{}';
    DELETE FROM {schema}._chains AS c
    WHERE c.id = ANY (old)
      AND c.finished_at + {schema}._window(c.key_window) <= _at
      AND NOT EXISTS (
        SELECT FROM {schema}._blockers AS b JOIN {schema}._jobs AS j ON j.id = b.job
        WHERE b.chain = c.id
          AND j.state IN ('blocked', 'scheduled', 'waiting', 'ready', 'running')
      );
    GET DIAGNOSTICS gone = ROW_COUNT;
    count := count + gone;
    CONTINUE WHEN cardinality(old) - gone <= 100;
    UPDATE {schema}._chains AS c SET aged_at = _at - kept + interval '1 minute'
    WHERE c.id = ANY (ARRAY(
      SELECT x.id FROM unnest(old) WITH ORDINALITY AS x (id, place)
      WHERE EXISTS (SELECT FROM {schema}._chains AS k WHERE k.id = x.id)
      ORDER BY x.place OFFSET 100
    ));
  END LOOP;
  RETURN count;
END $$;
