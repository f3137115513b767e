-- Delete failed jobs, the oldest first, at most `_limit`; how many.
CREATE OR REPLACE FUNCTION {schema}._delete_failed(_limit integer) RETURNS integer LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._jobs AS o WHERE o.state = 'failed'
    ORDER BY o.finished_at LIMIT _limit FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END $$;
