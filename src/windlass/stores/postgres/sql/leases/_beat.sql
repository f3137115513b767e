-- A sign of life: the worker owns what it holds until `_lease` seconds from now. Its number.
-- The clock is read once the row is locked: it may have been set while this waited for the lock.
CREATE OR REPLACE FUNCTION {schema}._beat(_worker text, _lease float8, _now timestamptz) RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._workers AS w (name, expires_at, lease)
  VALUES (
    _worker, coalesce(_now, clock_timestamp()) + make_interval(secs => _lease), _lease
  )
  ON CONFLICT (name) DO UPDATE SET
    expires_at = coalesce(_now, clock_timestamp()) + make_interval(secs => excluded.lease),
    lease = excluded.lease
  RETURNING w.id;
END;
