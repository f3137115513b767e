-- Whether a claim for these tasks (NULL for every one) and tenants might find a job behind the head of its
-- queue: a head that is ready, and of another task or paused (`_exchange_heads`). It looks at ten queues
-- for each task, and says so where there are more.
CREATE OR REPLACE FUNCTION {schema}._is_behind_a_head(_tasks text[], _tenants text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  most CONSTANT integer := 10;
  branch record;
  owner text;
  found_queue text;
BEGIN
  IF _tasks IS NULL THEN
    IF NOT EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task') THEN
      RETURN false;  -- every head that is ready may be claimed
    END IF;
    _tasks := {schema}._waiting_tasks();
  END IF;
  FOR branch IN
    SELECT t.name AS task, o.name AS owner
    FROM unnest(_tasks) AS t (name) CROSS JOIN unnest(_tenants) AS o (name)
  LOOP
    owner := '';
    found_queue := '';
    FOR n IN 1 .. most LOOP
      SELECT w.tenant, w.queue INTO owner, found_queue
      FROM {schema}._next_waiting(branch.owner, branch.task, owner, found_queue) AS w;
      EXIT WHEN found_queue IS NULL;
      IF n = most OR EXISTS (
        SELECT FROM {schema}._jobs AS h
        WHERE h.queue = found_queue AND h.tenant = owner AND h.queue IS NOT NULL
          AND h.state IN ('ready', 'running') AND h.state = 'ready'
      ) THEN
        RETURN true;
      END IF;
    END LOOP;
  END LOOP;
  RETURN false;
END $$;
