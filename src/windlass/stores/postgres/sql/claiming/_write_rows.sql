-- Make running rows of these jobs, but for those that `_write_batch` has leased if there is a
-- batch: the answers.
CREATE OR REPLACE FUNCTION {schema}._write_rows(
  _taken tid[], _is_batch boolean, _number bigint, _worker text, _at timestamptz, _base bigint,
  _longer jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  leases text;
BEGIN
  WITH given AS (
    UPDATE {schema}._jobs AS j SET
      state = 'running', token = _base + j.id, worker = _number, claimed_at = _at,
      attempts = j.attempts + 1, deliveries = j.deliveries + 1,
      lease_until = _at + make_interval(secs => (_longer ->> j.task)::float8),
      lease = (_longer ->> j.task)::float8
    WHERE j.ctid = ANY (_taken) AND NOT (_is_batch AND {schema}._fits_batch(j, _longer))
    RETURNING j.*
  )
  SELECT string_agg({schema}._lease(g, _base, 0, to_json(_worker)), ',') INTO leases
  FROM given AS g;
  RETURN leases;
END $$;
