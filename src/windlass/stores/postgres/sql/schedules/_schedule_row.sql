-- A schedule as one JSON array, in the order of `windlass.store.schedules`.
CREATE OR REPLACE FUNCTION {schema}._schedule_row(s {schema}._schedules) RETURNS json
LANGUAGE sql STABLE
RETURN json_build_array(
  (s).schedule::text, {schema}._micros((s).known_since), {schema}._micros((s).seen_at),
  {schema}._micros((s).floor_at), {schema}._micros((s).last_at),
  {schema}._micros((s).paused_at), (s).tenant);
