-- The next task by name after `_task` that has ready jobs of this tenant, or of all but the default
-- one (NULL).
CREATE OR REPLACE FUNCTION {schema}._next_ready_task(_tenant text, _task text) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  IF _tenant IS NULL THEN
    RETURN (SELECT j.task FROM {schema}._jobs AS j
            WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _task
            ORDER BY j.task LIMIT 1);
  ELSIF _tenant = '' THEN
    RETURN (SELECT j.task FROM {schema}._jobs AS j
            WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _task
            ORDER BY j.task LIMIT 1);
  END IF;
  RETURN (SELECT j.task FROM {schema}._jobs AS j
          WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = _tenant
            AND j.task > _task
          ORDER BY j.task LIMIT 1);
END $$;
