-- The next queue, by tenant and name, in which a job of this task waits: of one tenant, or of all
-- (NULL), after this tenant and queue.
CREATE OR REPLACE FUNCTION {schema}._next_waiting(
  _owner text, _task text, _tenant text, _queue text, OUT tenant text, OUT queue text
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  IF _owner IS NULL THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM {schema}._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task
      AND (w.tenant, w.queue) > (_tenant, _queue)
    ORDER BY w.tenant, w.queue LIMIT 1;
  ELSIF (_owner, '') > (_tenant, _queue) THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM {schema}._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task AND w.tenant = _owner
    ORDER BY w.queue LIMIT 1;
  ELSIF _owner = _tenant THEN
    SELECT w.tenant, w.queue INTO tenant, queue FROM {schema}._jobs AS w
    WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = _task AND w.tenant = _owner
      AND w.queue > _queue
    ORDER BY w.queue LIMIT 1;
  END IF;
END $$;
