-- A token as one JSON object, with the names of `windlass.store.server.Token`.
CREATE OR REPLACE FUNCTION {schema}._token_text(t {schema}._tokens) RETURNS text
LANGUAGE sql STABLE
RETURN json_build_object(
  'name', (t).name, 'digest', (t).digest, 'tenant', (t).tenant, 'roles', (t).roles,
  'tasks', (t).tasks, 'created_at', {schema}._micros((t).created_at),
  'expires_at', {schema}._micros((t).expires_at), 'revoked_at', {schema}._micros((t).revoked_at)
)::text;
