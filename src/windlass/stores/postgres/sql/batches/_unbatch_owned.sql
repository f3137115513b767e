-- Take these jobs, which these tokens own, out of their batches. Jobs that an open
-- transaction has locked stay in theirs.
CREATE OR REPLACE FUNCTION {schema}._unbatch_owned(_ids bigint[], _tokens bigint[]) RETURNS void
LANGUAGE plpgsql
SET jit = off
AS $$
BEGIN
  IF EXISTS (SELECT FROM {schema}._batches) THEN
    PERFORM {schema}._take_out(ARRAY(
      SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
      JOIN {schema}._batches AS b ON b.base = x.token - x.id
      JOIN {schema}._jobs AS k ON k.id BETWEEN x.id AND x.id AND {ready_undelivered k}
      ORDER BY x.id FOR NO KEY UPDATE OF k SKIP LOCKED
    ));
  END IF;
END $$;
