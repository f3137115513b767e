-- The clock was set, by `_by`: leases that began before are moved along. None ends later than one
-- lease from now, whatever it was moved by. A lease that ends later than that began before the
-- clock was set; of others this is not known, so they stay as they are where it was set back.
CREATE OR REPLACE FUNCTION {schema}._move_leases(_by interval, _now timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  UPDATE {schema}._workers AS w SET expires_at = least(
    m.last_end, w.expires_at + CASE
      WHEN _by > interval '0' OR w.expires_at > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT v.id, coalesce(_now, clock_timestamp()) + make_interval(secs => v.lease) AS last_end
    FROM {schema}._workers AS v ORDER BY v.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE w.id = m.id;
  UPDATE {schema}._jobs AS j SET lease_until = least(
    m.last_end, j.lease_until + CASE
      WHEN _by > interval '0' OR j.lease_until > m.last_end THEN _by ELSE interval '0'
    END
  )
  FROM (
    SELECT k.id, coalesce(_now, clock_timestamp()) + make_interval(secs => k.lease) AS last_end
    FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.lease_until IS NOT NULL
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ) AS m
  WHERE j.id = m.id;
END $$;
