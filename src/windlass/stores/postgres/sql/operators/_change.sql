-- Change these jobs: in one pass where all of them are simple (`_seen` says how), else behind
-- locks.
CREATE OR REPLACE FUNCTION {schema}._change(_ids bigint[], _edit {schema}._edit, _at timestamptz)
RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  bases bigint[];
  batched int8multirange;
  tenants text[];
  queues text[];
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
  SELECT u.locked, u.tenants, u.queues INTO _ids, tenants, queues
  FROM {schema}._unbatch(_ids, false) AS u;
  IF EXISTS (
    SELECT FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids)
      AND (k.chain IS NOT NULL OR k.blockers_total IS NOT NULL OR {told k})
  ) THEN
    RETURN QUERY SELECT c.* FROM {schema}._change_linked(_ids, _edit, _at, tenants, queues) AS c;
    RETURN;
  END IF;
  IF _edit.kind = 'reschedule' THEN
    PERFORM {schema}._announce(tenants, queues, queues IS NOT NULL, false);
  ELSE
    PERFORM pg_notify({channel}, '') WHERE {schema}._ended(
      ARRAY(SELECT k.id FROM {schema}._jobs AS k
            WHERE k.id = ANY (_ids) AND {schema}._is_open(k, NULL)), tenants, queues);
  END IF;
  RETURN QUERY SELECT c.* FROM {schema}._change_open(_ids, _edit, _at, NULL, NULL) AS c;
END $$;
