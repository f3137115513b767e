-- Treat these workers as dead now.
CREATE OR REPLACE FUNCTION {schema}._unlock(
  _workers text[], _max_resets integer, _now timestamptz DEFAULT NULL
) RETURNS SETOF {schema}._jobs LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = '10s'
AS $$
DECLARE
  numbers bigint[];
  doomed bigint[];
BEGIN
  SELECT array_agg(w.id) INTO numbers FROM (
    SELECT v.id FROM {schema}._workers AS v WHERE v.name = ANY (_workers)
    ORDER BY v.id FOR UPDATE
  ) AS w;
  -- Wait for rows that an open transaction has locked.
  PERFORM {schema}._unbatch(ARRAY(
    SELECT k.id FROM {schema}._jobs AS k WHERE k.state = 'running' AND k.worker = ANY (numbers)
    UNION ALL
    SELECT b.id FROM {schema}._in_batches AS b WHERE b.worker = ANY (numbers)
  ), true);
  PERFORM {schema}._dissolve_batches(ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.worker = ANY (numbers)
  ));
  SELECT array_agg(r.id) INTO doomed FROM (
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.state = 'running' AND k.worker = ANY (numbers) ORDER BY k.id FOR UPDATE
  ) AS r;
  RETURN QUERY SELECT * FROM {schema}._take_back(
    doomed, _max_resets, coalesce(_now, statement_timestamp()));
  DELETE FROM {schema}._workers AS w WHERE w.id = ANY (numbers);
END $$;
