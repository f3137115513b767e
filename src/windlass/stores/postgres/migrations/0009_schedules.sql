-- breaking: no
-- Schedules: what workers have in their crontabs, and how far each has been dealt with. Everybody
-- locks the schedule before its jobs, and schedules by identifier.

CREATE TABLE {schema}._schedules (
  identifier text NOT NULL,
  schedule json NOT NULL,
  known_since timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  floor_at timestamptz NOT NULL,
  last_at timestamptz,
  paused_at timestamptz,
  CONSTRAINT _schedules_pkey PRIMARY KEY (identifier)
);

-- A schedule as one JSON array, in the order of `windlass.store.schedules`.
CREATE FUNCTION {schema}._schedule_row(s {schema}._schedules) RETURNS json
LANGUAGE sql STABLE
RETURN json_build_array(
  (s).schedule::text, {schema}._micros((s).known_since), {schema}._micros((s).seen_at),
  {schema}._micros((s).floor_at), {schema}._micros((s).last_at),
  {schema}._micros((s).paused_at));

-- Remember schedules as a worker has them: an array of [identifier, schedule]. They, as they are
-- now.
CREATE FUNCTION {schema}._know(_schedules json, _now timestamptz DEFAULT NULL)
RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  INSERT INTO {schema}._schedules AS s (identifier, schedule, known_since, seen_at, floor_at)
  SELECT x.pair ->> 0, (x.pair ->> 1)::json, at, at, at
  FROM json_array_elements(_schedules) AS x (pair) ORDER BY x.pair ->> 0
  ON CONFLICT (identifier) DO UPDATE SET schedule = excluded.schedule, seen_at = excluded.seen_at;
  RETURN (SELECT json_agg({schema}._schedule_row(s))::text FROM {schema}._schedules AS s
          WHERE s.identifier IN (SELECT x.pair ->> 0 FROM json_array_elements(_schedules) AS x (pair)));
END $$;

-- Move a schedule from where it is expected to its last instant, and add its jobs: both or
-- neither. Whoever comes second finds it elsewhere.
CREATE FUNCTION {schema}._fire(
  _identifier text, _expected timestamptz, _until timestamptz, _jobs text, _is_keyed boolean,
  _now timestamptz DEFAULT NULL,
  OUT verdict text, OUT floor_micros bigint
) LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, clock_timestamp());
  s {schema}._schedules;
BEGIN
  SELECT k.* INTO s FROM {schema}._schedules AS k WHERE k.identifier = _identifier FOR UPDATE;
  floor_micros := coalesce({schema}._micros(s.floor_at), 0);
  verdict := CASE
    WHEN s.identifier IS NULL THEN 'missing'
    WHEN s.paused_at IS NOT NULL THEN 'paused'
    WHEN s.floor_at <> _expected OR _until <= s.floor_at THEN 'lost'
    WHEN _until > at THEN 'early'
    ELSE 'applied'
  END;
  IF verdict = 'applied' THEN
    UPDATE {schema}._schedules AS k SET floor_at = _until, last_at = _until
    WHERE k.identifier = _identifier;
    floor_micros := {schema}._micros(_until);
    PERFORM {schema}._add_jobs(_jobs::json, _is_keyed, at);
  END IF;
END $$;

CREATE FUNCTION {schema}._pause_schedule(_identifier text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  UPDATE {schema}._schedules AS s
  SET paused_at = coalesce(s.paused_at, _now, statement_timestamp())
  WHERE s.identifier = _identifier RETURNING s.*
$$;

-- What came while it was paused is passed over.
CREATE FUNCTION {schema}._resume_schedule(_identifier text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  UPDATE {schema}._schedules AS s SET
    floor_at = CASE WHEN s.paused_at IS NULL THEN s.floor_at
      ELSE greatest(s.floor_at, coalesce(_now, clock_timestamp())) END,
    paused_at = NULL
  WHERE s.identifier = _identifier RETURNING s.*
$$;

CREATE FUNCTION {schema}._forget_schedule(_identifier text, _now timestamptz DEFAULT NULL)
RETURNS SETOF {schema}._schedules LANGUAGE sql
AS $$
  DELETE FROM {schema}._schedules AS s WHERE s.identifier = _identifier RETURNING s.*
$$;
