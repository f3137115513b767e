-- The error of a job that fails because this chain did not complete.
CREATE OR REPLACE FUNCTION {schema}._failed_with(_chain bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN replace(replace({blocker_failed}, '{0}', _chain::text), '{1}', (
    SELECT CASE c.state WHEN 'failed' THEN 'failed' ELSE 'was cancelled' END
    FROM {schema}._chains AS c WHERE c.id = _chain
  ));
END $$;
