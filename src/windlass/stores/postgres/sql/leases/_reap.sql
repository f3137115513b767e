-- Take back jobs of workers whose leases ran out, at most `_limit`; with `_orphans` also of
-- workers that have no row in `_workers`.
--
-- A lease has run out when it has both by this clock and by `_reckoned`, the time that the reaper
-- reckons the clock should show: so a clock that was set forward ends none. Since `_since` the
-- reaper's machine has missed no jump; a sign of life from before counts as one given then.
CREATE OR REPLACE FUNCTION {schema}._reap(
  _limit integer, _max_resets integer, _orphans boolean, _reckoned timestamptz,
  _since timestamptz, _now timestamptz DEFAULT NULL,
  OUT requeued bigint[], OUT ended bigint[], OUT at_micros bigint
) LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  passed timestamptz := least(at, _reckoned);
  dead bigint[];
  doomed bigint[];
BEGIN
  at_micros := {schema}._micros(at);
  -- No worker gives a sign of life in the future: the clock was set back. A reaper that has watched
  -- it will tell by how much.
  IF at > _reckoned - interval '250 ms' AND EXISTS (
    SELECT FROM {schema}._workers AS w
    WHERE w.expires_at > coalesce(_now, clock_timestamp()) + make_interval(secs => w.lease)
  ) THEN
    PERFORM {schema}._move_leases(interval '0', _now);
  END IF;
  SELECT coalesce(array_agg(w.id), '{}') INTO dead FROM (
    SELECT v.id FROM {schema}._workers AS v
    WHERE greatest(v.expires_at, _since + make_interval(secs => v.lease)) <= passed
    ORDER BY v.id FOR UPDATE SKIP LOCKED
  ) AS w;
  IF _orphans THEN
    WITH RECURSIVE holder (id) AS (
      SELECT (SELECT j.worker FROM {schema}._jobs AS j WHERE j.state = 'running'
              ORDER BY j.worker LIMIT 1)
      UNION ALL
      SELECT (SELECT j.worker FROM {schema}._jobs AS j
              WHERE j.state = 'running' AND j.worker > h.id ORDER BY j.worker LIMIT 1)
      FROM holder AS h WHERE h.id IS NOT NULL
    )
    SELECT dead || coalesce(array_agg(h.id), '{}') INTO dead FROM holder AS h
    WHERE h.id IS NOT NULL
      AND NOT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.id = h.id);
    SELECT dead || coalesce(array_agg(b.worker), '{}') INTO dead FROM {schema}._batches AS b
    WHERE NOT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.id = b.worker);
  END IF;
  IF dead = '{}' THEN
    requeued := '{}';
    ended := '{}';
    RETURN;
  END IF;
  PERFORM {schema}._dissolve_batches(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = ANY (dead)
  ));
  UPDATE {schema}._jobs AS j SET lease_until = at + make_interval(secs => j.lease)
  WHERE j.id = ANY (ARRAY(
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (dead)
      AND k.lease_until > at + make_interval(secs => k.lease)
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT j.id FROM {schema}._jobs AS j
    WHERE j.state = 'running' AND j.worker = ANY (dead) AND (
      j.lease_until IS NULL
      OR greatest(j.lease_until, _since + make_interval(secs => j.lease)) <= passed
    )
    ORDER BY j.id LIMIT _limit FOR UPDATE SKIP LOCKED
  ) AS r;
  SELECT
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NULL), '{}'),
    coalesce(array_agg(t.id) FILTER (WHERE t.finished_at IS NOT NULL), '{}')
  INTO requeued, ended
  FROM {schema}._take_back(doomed, _max_resets, at) AS t;
  DELETE FROM {schema}._workers AS w
  WHERE w.id = ANY (dead) AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS j WHERE j.state = 'running' AND j.worker = w.id
  ) AND NOT EXISTS (SELECT FROM {schema}._batches AS b WHERE b.worker = w.id);
END $$;
