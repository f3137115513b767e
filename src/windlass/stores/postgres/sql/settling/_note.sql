-- What a running job says of itself. The last `_most` entries of its log are kept.
CREATE OR REPLACE FUNCTION {schema}._note(
  _id bigint, _token bigint, _chain bigint, _progress json, _entry json, _most integer,
  _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  PERFORM {schema}._unbatch_owned(ARRAY[_id], ARRAY[_token]);
  SELECT k.* INTO j FROM {schema}._jobs AS k
  WHERE k.id = _id AND k.token = _token AND k.state = 'running' FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN {schema}._refusal(_id, _token, _chain);
  END IF;
  UPDATE {schema}._jobs AS k SET
    progress = coalesce(_progress, k.progress),
    log = CASE
      WHEN _entry IS NULL THEN k.log ELSE {schema}._appended(k.log, _entry, _most)
    END,
    updated_at = coalesce(_now, statement_timestamp())
  WHERE k.id = _id;
  RETURN 'applied';
END $$;
