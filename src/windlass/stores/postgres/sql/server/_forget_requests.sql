-- Forget requests that were remembered long enough, the oldest first, at most `_limit`; how many. One
-- that is asked for anew just now is left to that call.
CREATE OR REPLACE FUNCTION {schema}._forget_requests(_limit integer, _at timestamptz) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM {schema}._requests AS q WHERE q.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._requests AS o
    WHERE o.asked_at <= _at - {requests_kept}
    ORDER BY o.asked_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END $$;
