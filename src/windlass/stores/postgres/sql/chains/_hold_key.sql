-- Begin a chain that has a key, unless one is there: the id of the chain that has the key then. It waits
-- for a transaction that is just beginning one with this key. Its row is written before it is looked a
-- second time for chains that ended within the window: one that began and ended in between is seen.
CREATE OR REPLACE FUNCTION {schema}._hold_key(
  _tenant text, _key text, _window bigint, _id bigint, _task text, _payload json, _ended bigint,
  _at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  there bigint;
BEGIN
  LOOP
    there := {schema}._chain_of_key(_tenant, _key, _window, _ended, _at);
    IF there IS NOT NULL THEN
      RETURN there;
    END IF;
    INSERT INTO {schema}._chains (id, tenant, task, payload, key, key_window, created_at)
    VALUES (_id, _tenant, _task, _payload, _key, _window, _at)
    ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state = 'open' DO NOTHING;
    EXIT WHEN FOUND;
  END LOOP;
  IF _window > 0 THEN
    there := {schema}._ended_of_key(_tenant, _key, _window, _at);
    IF there IS NOT NULL AND there IS DISTINCT FROM _ended THEN
      DELETE FROM {schema}._chains AS c WHERE c.id = _id;
      RETURN there;
    END IF;
  END IF;
  RETURN _id;
END $$;
