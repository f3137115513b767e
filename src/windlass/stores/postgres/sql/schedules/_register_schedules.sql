-- Remember schedules of a tenant as a worker has them: an array of [identifier, schedule]. They, as
-- they are now.
CREATE OR REPLACE FUNCTION {schema}._register_schedules(
  _tenant text, _schedules json, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  INSERT INTO {schema}._schedules AS s
    (tenant, identifier, schedule, known_since, seen_at, floor_at)
  SELECT _tenant, x.pair ->> 0, (x.pair ->> 1)::json, at, at, at
  FROM json_array_elements(_schedules) AS x (pair) ORDER BY x.pair ->> 0
  ON CONFLICT (tenant, identifier) DO UPDATE SET
    schedule = excluded.schedule, seen_at = excluded.seen_at;
  RETURN (
    SELECT json_agg({schema}._schedule_row(s))::text FROM {schema}._schedules AS s
    WHERE s.tenant = _tenant AND s.identifier IN (
      SELECT x.pair ->> 0 FROM json_array_elements(_schedules) AS x (pair)
    )
  );
END $$;
