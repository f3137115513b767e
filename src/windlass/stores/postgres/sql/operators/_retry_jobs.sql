-- Failed, cancelled and scheduled jobs run again now, with all their attempts; a cancelled one
-- only if no other job has taken its key.
CREATE OR REPLACE FUNCTION {schema}._retry_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  j {schema}._jobs;
BEGIN
  FOR j IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ('scheduled', 'failed', 'cancelled')
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  LOOP
    BEGIN
      UPDATE {schema}._jobs AS k SET
        attempts = 0, resets = 0, suspect = false, finished_at = NULL, run_at = at,
        updated_at = at, state = {schema}._due_state(at, k.queue, at)
      WHERE k.id = j.id RETURNING k.* INTO j;
    EXCEPTION WHEN unique_violation THEN
      CONTINUE;
    END;
    IF j.queue IS NOT NULL THEN
      PERFORM {schema}._ring(ARRAY[j.tenant], ARRAY[j.queue]);
    END IF;
    PERFORM pg_notify({channel}, '');
    RETURN NEXT j;
  END LOOP;
END $$;
