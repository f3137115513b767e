-- The tasks of jobs that wait for their queues.
CREATE OR REPLACE FUNCTION {schema}._waiting_tasks() RETURNS text[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN ARRAY(
    WITH RECURSIVE waiting (task) AS (
      SELECT (SELECT w.task FROM {schema}._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL ORDER BY w.task LIMIT 1)
      UNION ALL
      SELECT (SELECT w.task FROM {schema}._jobs AS w
              WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task > o.task
              ORDER BY w.task LIMIT 1)
      FROM waiting AS o WHERE o.task IS NOT NULL
    )
    SELECT w.task FROM waiting AS w WHERE w.task IS NOT NULL
  );
END $$;
