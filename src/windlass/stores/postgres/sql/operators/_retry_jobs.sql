-- Failed, cancelled and scheduled jobs run again now, with all their attempts; a cancelled one
-- only if no other job has taken its key. Nothing is changed where one of them waits for a chain that
-- has failed, or belongs to one whose key was taken.
CREATE OR REPLACE FUNCTION {schema}._retry_jobs(_ids bigint[], _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  old {schema}._jobs;
  j {schema}._jobs;
  back bigint[] := '{}';
BEGIN
  IF EXISTS (
    SELECT FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND (k.chain IS NOT NULL OR k.blockers_total IS NOT NULL)
  ) THEN
    PERFORM {schema}._need_read_committed();
    PERFORM FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ({states_of_retry})
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE;
    PERFORM {schema}._check_retry(_ids, '{}');
  END IF;
  FOR old IN
    SELECT k.* FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND k.state IN ({states_of_retry})
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  LOOP
    BEGIN
      UPDATE {schema}._jobs AS k SET
        attempts = 0, resets = 0, suspect = false, finished_at = NULL, run_at = at,
        updated_at = at, state = {schema}._due_state(at, k.queue, at)
      WHERE k.id = old.id RETURNING k.* INTO j;
    EXCEPTION WHEN unique_violation THEN
      CONTINUE;
    END;
    IF j.queue IS NOT NULL THEN
      PERFORM {schema}._ring(ARRAY[j.tenant], ARRAY[j.queue]);
    END IF;
    PERFORM pg_notify({channel}, '');
    IF (j.chain IS NOT NULL OR j.blockers_total IS NOT NULL) AND old.state <> 'scheduled' THEN
      back := back || j.id;
    ELSE
      RETURN NEXT j;
    END IF;
  END LOOP;
  IF back <> '{}' THEN
    PERFORM {schema}._bring_back(back, at);
    RETURN QUERY SELECT k.* FROM {schema}._jobs AS k WHERE k.id = ANY (back);
  END IF;
END $$;
