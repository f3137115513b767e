-- A job as the public functions return it, in this state since that instant. Without a query in its
-- body, so that it is no call.
CREATE OR REPLACE FUNCTION {schema}._shown(
  j {schema}._jobs, worker text, state {schema}._job_state, since timestamptz
) RETURNS {schema}.job
LANGUAGE sql STABLE
RETURN ROW(
  (j).id, (j).queue, (j).task, (j).priority, (j).run_at,
  CASE
    WHEN (j).superseded OR state = 'failed'
      THEN greatest((j).attempts, coalesce((j).max_attempts, {max_attempts}))
    ELSE (j).attempts
  END,
  coalesce((j).max_attempts, {max_attempts}), (j).last_error, (j).created_at, since,
  (j).key, (j).claimed_at, worker, (j).revision, (j).flags, (j).payload,
  CASE state  -- a conversion costs several times what a comparison does
    WHEN 'ready' THEN 'ready' WHEN 'waiting' THEN 'ready' WHEN 'failed' THEN 'failed'
    WHEN 'scheduled' THEN 'scheduled' WHEN 'completed' THEN 'completed' ELSE state::text
  END, nullif((j).tenant, ''))::{schema}.job;
