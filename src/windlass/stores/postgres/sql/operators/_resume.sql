-- Start jobs of a tenant's task or queue again. What claims have parked meanwhile is ready again, and
-- queues in which jobs of that task wait are looked at. Behind the latch: a claim that has seen the
-- pause parks its jobs before, where this sees them, or not at all. Claims answer no bells while this
-- waits for a parked job that an open transaction has locked, so it does not wait for long.
CREATE OR REPLACE FUNCTION {schema}._resume(_tenant text, _kind text, _name text)
RETURNS void LANGUAGE plpgsql
SET lock_timeout = '2s' SET enable_seqscan = off
AS $$
BEGIN
  PERFORM {schema}._need_read_committed();
  PERFORM pg_advisory_xact_lock({latch});
  DELETE FROM {schema}._paused AS p
  WHERE p.tenant = _tenant AND p.kind = _kind AND p.name = _name;
  IF _kind = 'queue' THEN
    PERFORM {schema}._ring(ARRAY[_tenant], ARRAY[_name]);
  ELSE
    PERFORM FROM {schema}._jobs AS j
    WHERE j.state = 'waiting' AND j.queue IS NULL AND j.task = _name AND j.tenant = _tenant
    ORDER BY j.key NULLS FIRST, j.tenant, j.id FOR NO KEY UPDATE;
    UPDATE {schema}._jobs AS j SET state = 'ready'
    WHERE j.state = 'waiting' AND j.queue IS NULL AND j.task = _name AND j.tenant = _tenant;
    PERFORM {schema}._ring(array_agg(_tenant), array_agg(w.queue)) FROM (
      SELECT DISTINCT j.queue FROM {schema}._jobs AS j
      WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task = _name AND j.tenant = _tenant
    ) AS w;
  END IF;
  PERFORM pg_notify({channel}, '');
END $$;
