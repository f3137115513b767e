-- Tasks with ready jobs of a tenant for which no live worker runs them, at most `_most`; none while a
-- live worker has not said what it runs. Ready are also jobs that wait for their queue.
--
-- It looks between the names of tasks that are run for all tenants, so that the many entries of tasks
-- at work, dead ones too, are not read. Of each other task it looks at the first jobs only.
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
      SELECT unnest(w.tasks) AS name FROM {schema}._workers AS w
      WHERE w.expires_at > at AND w.tenants IS NULL
    ) AS n ORDER BY n.name
  );
  low := '';
  FOREACH high IN ARRAY known || NULL::text LOOP
    LOOP
      next := {schema}._next_task(low, high);
      EXIT WHEN next IS NULL OR cardinality(found_tasks) >= _most;
      IF {schema}._is_stranded(next, at) THEN
        found_tasks := found_tasks || next;
      END IF;
      low := next;
    END LOOP;
    low := high;
  END LOOP;
  RETURN ARRAY(
    SELECT unnest(found_tasks)
    UNION
    SELECT s.task FROM (
      SELECT j.task FROM {schema}._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task <> ALL (known)
      UNION
      SELECT j.task FROM {schema}._jobs AS j
      WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task <> ALL (known)
    ) AS s WHERE {schema}._is_stranded(s.task, at)
    LIMIT _most
  );
END $$;
