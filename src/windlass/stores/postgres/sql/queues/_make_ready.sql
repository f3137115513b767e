-- Make these heads of queues, which the caller has locked, ready for any claim. Answers their ids.
CREATE OR REPLACE FUNCTION {schema}._make_ready(_heads tid[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
BEGIN
  WITH made AS (
    UPDATE {schema}._jobs AS j SET state = 'ready'
    WHERE j.ctid = ANY (_heads) AND j.state = 'waiting' RETURNING j.id
  )
  SELECT coalesce(array_agg(m.id), '{}') INTO ids FROM made AS m;
  RETURN ids;
END $$;
