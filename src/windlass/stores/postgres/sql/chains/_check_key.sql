-- Refuse to open this chain again where another open one has its key.
CREATE OR REPLACE FUNCTION {schema}._check_key(_chain bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rival record;
BEGIN
  SELECT r.id, c.key INTO rival FROM {schema}._chains AS c
  JOIN {schema}._chains AS r ON r.key = c.key AND r.tenant = c.tenant
    AND r.key IS NOT NULL AND r.state = 'open'
  WHERE c.id = _chain AND c.state <> 'open';
  IF FOUND THEN
    RAISE EXCEPTION 'chain % cannot be open again: its key ''%'' belongs to chain % now; wait for that one, or cancel it',
      _chain, rival.key, rival.id USING ERRCODE = 'WLCCL';
  END IF;
END $$;
