-- Keep a token, a JSON object with the names of `windlass.store.server.Token` and instants in microseconds;
-- whether its name was free.
CREATE OR REPLACE FUNCTION {schema}._add_token(_token json) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}._tokens (
    name, digest, tenant, roles, tasks, created_at, expires_at, revoked_at)
  SELECT x.name, x.digest, coalesce(x.tenant, ''), x.roles, x.tasks,
    timestamptz 'epoch' + x.created_at * interval '1 microsecond',
    timestamptz 'epoch' + x.expires_at * interval '1 microsecond',
    timestamptz 'epoch' + x.revoked_at * interval '1 microsecond'
  FROM json_to_record(_token) AS x (
    name text, digest text, tenant text, roles text[], tasks text[],
    created_at bigint, expires_at bigint, revoked_at bigint)
  ON CONFLICT (name) DO NOTHING;
  RETURN FOUND;
END $$;
