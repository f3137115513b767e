-- Tasks with ready jobs that no live worker runs, at most `_most`; none while a live worker has not
-- said what it runs. Ready are also those that wait for their queue. It looks between the names that are known, so that the many entries of tasks
-- at work, dead ones too, are not read.
CREATE OR REPLACE FUNCTION {schema}._stranded(_most integer, _now timestamptz DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  known text[];
  low text;
  high text;
  next text;
  found_tasks text[] := '{}';
BEGIN
  IF EXISTS (SELECT FROM {schema}._workers AS w WHERE w.expires_at > at AND w.tasks IS NULL) THEN
    RETURN found_tasks;
  END IF;
  known := ARRAY(
    SELECT DISTINCT n.name FROM (
      SELECT unnest(w.tasks) AS name FROM {schema}._workers AS w WHERE w.expires_at > at
      UNION ALL
      SELECT p.name FROM {schema}._paused AS p WHERE p.kind = 'task'
    ) AS n ORDER BY n.name
  );
  low := '';
  FOREACH high IN ARRAY known || NULL::text LOOP
    LOOP
      IF high IS NULL THEN
        next := least(
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'waiting' AND j.task > low ORDER BY j.task LIMIT 1)
        );
      ELSE
        next := least(
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.task > low AND j.task < high
           ORDER BY j.task LIMIT 1),
          (SELECT j.task FROM {schema}._jobs AS j
           WHERE j.state = 'waiting' AND j.task > low AND j.task < high
           ORDER BY j.task LIMIT 1)
        );
      END IF;
      EXIT WHEN next IS NULL OR cardinality(found_tasks) >= _most;
      found_tasks := found_tasks || next;
      low := next;
    END LOOP;
    low := high;
  END LOOP;
  RETURN ARRAY(
    SELECT unnest(found_tasks)
    UNION
    SELECT j.task FROM {schema}._jobs AS j
    WHERE j.state = 'ready' AND j.suspect AND j.task <> ALL (known)
    LIMIT _most
  );
END $$;
