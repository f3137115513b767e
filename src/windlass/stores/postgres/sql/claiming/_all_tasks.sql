-- The tasks that have jobs which a claim for these tenants could take, or which wait.
CREATE OR REPLACE FUNCTION {schema}._all_tasks(_tenants text[]) RETURNS text[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN ARRAY(
    WITH RECURSIVE ready (owner, task) AS (
      SELECT t.name, {schema}._next_ready_task(t.name, '') FROM unnest(_tenants) AS t (name)
      UNION ALL
      SELECT r.owner, {schema}._next_ready_task(r.owner, r.task) FROM ready AS r
      WHERE r.task IS NOT NULL
    ),
    waiting (task) AS (
      SELECT (SELECT w.task FROM {schema}._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL ORDER BY w.task LIMIT 1)
      UNION ALL
      SELECT (SELECT w.task FROM {schema}._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task > o.task
              ORDER BY w.task LIMIT 1)
      FROM waiting AS o WHERE o.task IS NOT NULL
    )
    SELECT r.task FROM ready AS r WHERE r.task IS NOT NULL
    UNION
    SELECT w.task FROM waiting AS w WHERE w.task IS NOT NULL
    UNION
    SELECT j.task FROM {schema}._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
    UNION
    SELECT j.task FROM {schema}._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
  );
END $$;
