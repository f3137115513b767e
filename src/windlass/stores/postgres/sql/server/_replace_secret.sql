-- Keep this secret in place of the one that has its name, if there is one.
CREATE OR REPLACE FUNCTION {schema}._replace_secret(_tenant text, _name text, _fresh text) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  INSERT INTO {schema}._secrets (tenant, name, value) VALUES (_tenant, _name, _fresh)
  ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value;
END $$;
