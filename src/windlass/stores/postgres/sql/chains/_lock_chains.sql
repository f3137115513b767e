-- Lock the current jobs of these chains, as `_unbatch` does: their ids. A chain that goes on while this
-- waits for its job has another one then, and that one is locked in turn. Now these chains change no more.
CREATE OR REPLACE FUNCTION {schema}._lock_chains(_chains bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  locked bigint[] := '{}';
  wanted bigint[];
BEGIN
  PERFORM {schema}._need_read_committed();
  LOOP
    wanted := ARRAY(
      SELECT j.id FROM unnest(_chains) AS c (id) CROSS JOIN LATERAL (
        SELECT k.id FROM {schema}._jobs AS k WHERE k.chain = c.id ORDER BY k.step DESC LIMIT 1
      ) AS j WHERE j.id <> ALL (locked)
    );
    EXIT WHEN wanted = '{}';
    locked := locked || ({schema}._unbatch(wanted, true)).locked;
  END LOOP;
  RETURN ARRAY(SELECT j.id FROM {schema}._jobs AS j WHERE j.id = ANY (locked));
END $$;
