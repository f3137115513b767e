-- Remove what was kept long enough, at most `_limit` rows in one step; how many.
CREATE OR REPLACE FUNCTION {schema}._prune(
  _limit integer, _cancelled_kept float8, _now timestamptz DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  kept integer;
  cancelled integer;
BEGIN
  DELETE FROM {schema}._history AS h WHERE h.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._history AS o WHERE o.expires_at <= at
    ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS kept = ROW_COUNT;
  DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._jobs AS o
    WHERE o.state = 'cancelled' AND o.finished_at <= at - make_interval(secs => _cancelled_kept)
    ORDER BY o.finished_at LIMIT _limit - kept FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS cancelled = ROW_COUNT;
  RETURN kept + cancelled;
END $$;
