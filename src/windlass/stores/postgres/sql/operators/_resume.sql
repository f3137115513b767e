-- Start jobs of a task or a queue again.
CREATE OR REPLACE FUNCTION {schema}._resume(_kind text, _name text) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock({latch});
  DELETE FROM {schema}._paused AS p WHERE p.kind = _kind AND p.name = _name;
  IF _kind = 'queue' THEN
    INSERT INTO {schema}._bells (queue) VALUES (_name);
  END IF;
  PERFORM pg_notify({channel}, '');
END $$;
