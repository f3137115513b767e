-- Move a schedule from where it is expected to its last instant, and add its jobs: both or
-- neither. A worker that comes second finds the schedule past `_expected`, and adds nothing.
CREATE OR REPLACE FUNCTION {schema}._fire(
  _tenant text, _identifier text, _expected timestamptz, _until timestamptz, _jobs text,
  _is_keyed boolean, _now timestamptz DEFAULT NULL,
  OUT verdict text, OUT floor_micros bigint
) LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, clock_timestamp());
  s {schema}._schedules;
BEGIN
  SELECT k.* INTO s FROM {schema}._schedules AS k
  WHERE k.tenant = _tenant AND k.identifier = _identifier FOR UPDATE;
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
    WHERE k.tenant = _tenant AND k.identifier = _identifier;
    floor_micros := {schema}._micros(_until);
    PERFORM {schema}._add_jobs(_jobs::json, _is_keyed, at);
  END IF;
END $$;
