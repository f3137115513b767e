-- Change these jobs: in one pass where all of them are simple (`_seen` says how), else behind
-- locks.
CREATE OR REPLACE FUNCTION {schema}._change(_ids bigint[], _edit {schema}._edit, _at timestamptz)
RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  bases bigint[];
  batched int8multirange;
  heads text[];
BEGIN
  SELECT s.bases, s.batched INTO bases, batched FROM {schema}._seen(_ids) AS s;
  IF batched IS NOT NULL THEN
    BEGIN
      RETURN QUERY SELECT c.* FROM {schema}._change_open(_ids, _edit, _at, bases, batched) AS c;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'WLBAT' THEN
      NULL;  -- undone: go on behind locks
    END;
  END IF;
  SELECT u.locked, u.heads INTO _ids, heads FROM {schema}._unbatch(_ids, false) AS u;
  PERFORM {schema}._announce(heads, heads IS NOT NULL, false);
  RETURN QUERY SELECT c.* FROM {schema}._change_open(_ids, _edit, _at, NULL, NULL) AS c;
END $$;
