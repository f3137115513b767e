-- Heads whose places were taken by jobs that then were not claimed get them back.
CREATE OR REPLACE FUNCTION {schema}._put_back(_heads bigint[], _candidates bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  swap record;
BEGIN
  FOR swap IN
    SELECT x.head, x.candidate FROM unnest(_heads, _candidates) AS x (head, candidate)
    JOIN {schema}._jobs AS j ON j.id = x.candidate AND j.state = 'ready'
  LOOP
    UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.id = swap.candidate;
    UPDATE {schema}._jobs AS j SET state = 'ready' WHERE j.id = swap.head;
  END LOOP;
END $$;
