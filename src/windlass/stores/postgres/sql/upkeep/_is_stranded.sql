-- Whether one of the first thousand jobs of this task that could start is of a tenant for which no live
-- worker runs the task. Jobs that are paused with their task do not count.
CREATE OR REPLACE FUNCTION {schema}._is_stranded(_task text, _at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM (
      (SELECT j.tenant FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _task LIMIT 1)
      UNION ALL
      (SELECT j.tenant FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _task LIMIT 1000)
      UNION ALL
      (SELECT j.tenant FROM {schema}._jobs AS j
       WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task = _task LIMIT 1000)
      UNION ALL
      (SELECT j.tenant FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task = _task LIMIT 1)
      UNION ALL
      (SELECT j.tenant FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = _task LIMIT 1000)
    ) AS f
    WHERE NOT EXISTS (
      SELECT FROM {schema}._paused AS p
      WHERE p.tenant = f.tenant AND p.kind = 'task' AND p.name = _task
    ) AND NOT EXISTS (
      SELECT FROM {schema}._workers AS w
      WHERE w.expires_at > _at AND _task = ANY (w.tasks)
        AND (w.tenants IS NULL OR f.tenant = ANY (w.tenants))
    )
  );
END $$;
