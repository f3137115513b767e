-- What a claim does last where it has answered bells: delete those it has `_heard`, but for those
-- that are `_kept`; and if it does not take all that `_admit` made ready or locked for it, tell
-- others. `_admitted` are the ids of heads that `_admit` made ready, and `_is_over` says that the
-- claim has left some that it had locked.
CREATE OR REPLACE FUNCTION {schema}._end_admission(
  _heard bigint[], _kept bigint[], _admitted bigint[], _is_over boolean
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  IF _kept <> '{}' THEN
    _heard := ARRAY(
      SELECT h.n FROM unnest(_heard) AS h (n)
      WHERE h.n NOT IN (SELECT k.n FROM unnest(_kept) AS k (n))
    );
  END IF;
  DELETE FROM {schema}._bells AS b WHERE b.tenant = '' AND b.n = ANY (_heard);
  IF EXISTS (SELECT FROM {schema}._bells AS b WHERE b.tenant > '') THEN
    DELETE FROM {schema}._bells AS b WHERE b.tenant > '' AND b.n = ANY (_heard);
  END IF;
  PERFORM pg_notify({channel}, '') WHERE _is_over OR EXISTS (
    SELECT FROM {schema}._jobs AS j WHERE j.id = ANY (_admitted) AND j.state = 'ready'
  );
END $$;
