-- The open chain of this key; or else the last that ended within `_window` microseconds, unless it is
-- `_ended`, which leaves its key to its successor.
CREATE OR REPLACE FUNCTION {schema}._chain_of_key(
  _tenant text, _key text, _window bigint, _ended bigint, _at timestamptz
) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  found_id bigint;
BEGIN
  SELECT c.id INTO found_id FROM {schema}._chains AS c
  WHERE c.key = _key AND c.tenant = _tenant AND c.key IS NOT NULL AND c.state = 'open';
  IF NOT FOUND AND _window > 0 THEN
    found_id := {schema}._ended_of_key(_tenant, _key, _window, _at);
  END IF;
  RETURN nullif(found_id, _ended);
END $$;
