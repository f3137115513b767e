-- The secret of this name; `_fresh` is kept and is the answer where there was none. Of many that ask at once
-- one writes, and the others wait for it and read what it wrote, in a statement that begins afterwards.
CREATE OR REPLACE FUNCTION {schema}._secret(_tenant text, _name text, _fresh text) RETURNS text
LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  found_value text;
BEGIN
  PERFORM {schema}._need_read_committed();
  SELECT s.value INTO found_value FROM {schema}._secrets AS s
  WHERE s.tenant = _tenant AND s.name = _name;
  IF NOT FOUND THEN
    INSERT INTO {schema}._secrets (tenant, name, value) VALUES (_tenant, _name, _fresh)
    ON CONFLICT (tenant, name) DO NOTHING;
    SELECT s.value INTO found_value FROM {schema}._secrets AS s
    WHERE s.tenant = _tenant AND s.name = _name;
  END IF;
  RETURN found_value;
END $$;
