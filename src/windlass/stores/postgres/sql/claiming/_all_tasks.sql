-- The tasks that have jobs which a claim for these tenants could take, or which wait; but for Windlass's
-- own, which a worker must name.
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
    )
    SELECT a.task FROM (
      SELECT r.task FROM ready AS r WHERE r.task IS NOT NULL
      UNION
      SELECT w.task FROM unnest({schema}._waiting_tasks()) AS w (task)
      UNION
      SELECT j.task FROM {schema}._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
      UNION
      SELECT j.task FROM {schema}._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
    ) AS a
    WHERE NOT {reserved a.task}
  );
END $$;
