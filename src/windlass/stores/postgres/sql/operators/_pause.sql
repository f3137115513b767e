-- Start no more jobs of a tenant's task or queue. Behind the latch, so that no claim makes a job of the queue ready in the meantime.
CREATE OR REPLACE FUNCTION {schema}._pause(_tenant text, _kind text, _name text)
RETURNS void LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  PERFORM {schema}._need_read_committed();
  -- Lock the rows before the latch: a wait for a row must not keep the latch from claims.
  PERFORM FROM {schema}._jobs AS j
  WHERE _kind = 'queue' AND j.queue = _name AND j.tenant = _tenant AND j.queue IS NOT NULL
    AND j.state = 'ready'
  FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock({latch});
  INSERT INTO {schema}._paused (tenant, kind, name) VALUES (_tenant, _kind, _name)
  ON CONFLICT DO NOTHING;
  IF _kind = 'queue' THEN
    UPDATE {schema}._jobs AS j SET state = 'waiting'
    WHERE j.queue = _name AND j.tenant = _tenant AND j.queue IS NOT NULL AND j.state = 'ready';
  END IF;
END $$;
