-- What operators call. Running jobs are left alone; what changed is returned. Rows are locked in
-- the order of their keys and then ids, so that two calls at once never deadlock.
CREATE OR REPLACE FUNCTION {schema}._cancel_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j {schema}._jobs;
  queue text;
  over bigint[] := '{}';
  tenants text[];
  queues text[];
  ends {schema}._chain_end[];
BEGIN
  _ids := ({schema}._unbatch(_ids, true)).locked;
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ({states_of_cancel})
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  LOOP
    IF j.state = 'running' THEN
      UPDATE {schema}._jobs AS k SET cancel_requested = true, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
    ELSE
      queue := {schema}._freed(j);
      UPDATE {schema}._jobs AS k SET
        state = 'cancelled', superseded = false, holds = false, finished_at = at, updated_at = at
      WHERE k.id = j.id RETURNING k.* INTO j;
      over := over || j.id;
      IF {told j} THEN
        PERFORM {schema}._post_ends(ARRAY[j], NULL, NULL, at);
      END IF;
      IF queue IS NOT NULL THEN
        tenants := tenants || j.tenant;
        queues := queues || queue;
      END IF;
      IF j.chain IS NOT NULL THEN
        ends := ends || {schema}._end_of_chain(j, j.state, NULL, NULL);
      END IF;
    END IF;
    RETURN NEXT j;
  END LOOP;
  -- All are cancelled before one hears that a chain it waited for was.
  IF over <> '{}' THEN
    PERFORM pg_notify({channel}, '') WHERE {schema}._ended(over, tenants, queues, ends, at);
  END IF;
END $$;
