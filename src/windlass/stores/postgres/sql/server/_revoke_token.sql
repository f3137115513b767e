-- Revoke the token of this name, if it is not yet; the token as it is then, NULL if there is none.
CREATE OR REPLACE FUNCTION {schema}._revoke_token(_name text, _now timestamptz DEFAULT NULL)
RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
BEGIN
  UPDATE {schema}._tokens AS t SET revoked_at = coalesce(_now, statement_timestamp())
  WHERE t.name = _name AND t.revoked_at IS NULL;
  RETURN (SELECT {schema}._token_text(t) FROM {schema}._tokens AS t WHERE t.name = _name);
END $$;
