-- Delete the tenant's job with that key; one that runs loses its key and will not run again.
CREATE OR REPLACE FUNCTION {schema}._remove_job(
  _tenant text, _key text, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  SELECT k.* INTO j FROM {schema}._jobs AS k
  WHERE k.key = _key AND k.tenant = _tenant AND k.state <> 'cancelled' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF j.state = 'running' THEN
    UPDATE {schema}._jobs AS k SET
      key = NULL, superseded = true, updated_at = coalesce(_now, statement_timestamp())
    WHERE k.id = j.id RETURNING k.* INTO j;
  ELSE
    DELETE FROM {schema}._jobs AS k WHERE k.id = j.id;
    IF j.blockers_total IS NOT NULL THEN
      PERFORM {schema}._drop_blockers(ARRAY[j.id]);
    END IF;
    PERFORM pg_notify({channel}, '') WHERE {schema}._ended(
      ARRAY[j.id], ARRAY[j.tenant], nullif(ARRAY[{schema}._freed(j)], '{NULL}'));
  END IF;
  RETURN NEXT j;
END $$;
