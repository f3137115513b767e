-- This machine saw the clock jump by `_by`, to where its zero is at `_zero_at`. Notes of
-- machines that have written none for 30 days are deleted.
CREATE OR REPLACE FUNCTION {schema}._follow_clock(
  _machine text, _zero_at timestamptz, _since float8, _by interval, _now timestamptz DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  now_here timestamptz := coalesce(_now, clock_timestamp());
BEGIN
  PERFORM {schema}._move_leases(_by, _now);
  INSERT INTO {schema}._clocks AS c (machine, zero_at, since, noted_at)
  VALUES (_machine, _zero_at, _since, now_here)
  ON CONFLICT (machine) DO UPDATE SET
    zero_at = excluded.zero_at, since = excluded.since, noted_at = excluded.noted_at;
  DELETE FROM {schema}._clocks AS c
  WHERE c.machine <> _machine AND c.noted_at < now_here - interval '30 days';
END $$;
