-- Of the jobs that a claim has picked, those that may start: a job of a queue that others hold, and that
-- does not hold it itself, waits again. It was ready before an operator made one of the others a
-- holder; when the hold ends, the queue rings.
CREATE OR REPLACE FUNCTION {schema}._keep_back(_picked tid[]) RETURNS tid[]
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  kept tid[];
BEGIN
  kept := ARRAY(
    SELECT j.ctid FROM {schema}._jobs AS j
    WHERE j.ctid = ANY (_picked) AND j.queue IS NOT NULL AND NOT j.holds AND EXISTS (
      SELECT FROM {schema}._jobs AS k
      WHERE k.holds AND k.queue = j.queue AND k.tenant = j.tenant
    )
  );
  IF kept = '{}' THEN
    RETURN _picked;
  END IF;
  UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.ctid = ANY (kept);
  RETURN ARRAY(SELECT p.tid FROM unnest(_picked) AS p (tid) WHERE p.tid <> ALL (kept));
END $$;
