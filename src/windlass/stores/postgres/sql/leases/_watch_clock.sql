-- What this machine knows of the database's clock: what an earlier process on it has noted, or, if
-- there was none, that it watches from now on. `_at` is the instant on the machine's own clock.
CREATE OR REPLACE FUNCTION {schema}._watch_clock(
  _machine text, _at float8, _now timestamptz DEFAULT NULL,
  OUT zero_micros bigint, OUT watched_since float8
) LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._clocks AS c (machine, zero_at, since, noted_at)
  SELECT _machine, n.at - make_interval(secs => _at), _at, n.at
  FROM (SELECT coalesce(_now, statement_timestamp()) AS at) AS n
  ON CONFLICT (machine) DO UPDATE SET noted_at = excluded.noted_at
  RETURNING {schema}._micros(c.zero_at), c.since;
END;
