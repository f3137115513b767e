-- Remove what was kept long enough, at most `_limit` rows in one step; how many.
CREATE OR REPLACE FUNCTION {schema}._prune(
  _limit integer, _cancelled_kept float8, _chains_kept float8, _failed_chains_kept float8,
  _now timestamptz DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  kept integer;
  cancelled integer;
  waited bigint[];
BEGIN
  WITH deleted AS (
    DELETE FROM {schema}._history AS h WHERE h.ctid = ANY (ARRAY(
      SELECT o.ctid FROM {schema}._history AS o WHERE o.expires_at <= at
      ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING h.id, h.blockers_total
  )
  SELECT count(*), array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL)
  INTO kept, waited FROM deleted AS d;
  PERFORM {schema}._drop_blockers(waited);
  WITH deleted AS (
    DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
      SELECT o.ctid FROM {schema}._jobs AS o
      WHERE o.state = 'cancelled'
        AND o.finished_at <= at - make_interval(secs => _cancelled_kept)
      ORDER BY o.finished_at LIMIT _limit - kept FOR UPDATE SKIP LOCKED
    ))
    RETURNING j.id, j.blockers_total
  )
  SELECT count(*), array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL)
  INTO cancelled, waited FROM deleted AS d;
  PERFORM {schema}._drop_blockers(waited);
  kept := kept + cancelled;
  IF kept < _limit AND EXISTS (SELECT FROM {schema}._chains AS c WHERE c.state <> 'open') THEN
    kept := kept + {schema}._prune_chains(_limit - kept, _chains_kept, _failed_chains_kept, at);
  END IF;
  RETURN kept + {schema}._forget_requests(_limit - kept, at);
END $$;
