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
      PERFORM pg_notify({channel}, '') WHERE {schema}._ended(
        ARRAY[j.id], ARRAY[j.tenant], nullif(ARRAY[queue], '{NULL}'),
        CASE WHEN j.chain IS NOT NULL THEN ARRAY[
          {schema}._end_of_chain(j, j.state, NULL, NULL)] END,
        at);
    END IF;
    RETURN NEXT j;
  END LOOP;
END $$;
