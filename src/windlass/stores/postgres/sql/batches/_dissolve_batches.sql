-- Delete these batches: the jobs left in them become running rows. A batch with a job that an open
-- transaction has locked stays; a later call deletes it.
CREATE OR REPLACE FUNCTION {schema}._dissolve_batches(_bases bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  bases bigint[];
BEGIN
  bases := ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE b.base = ANY (_bases)
    ORDER BY b.base FOR UPDATE SKIP LOCKED
  );
  IF bases = '{}' THEN
    RETURN;
  END IF;
  PERFORM {schema}._take_out(ARRAY(
    SELECT k.id FROM {schema}._jobs AS k
    WHERE k.id IN (SELECT b.id FROM {schema}._in_batches AS b WHERE b.base = ANY (bases))
      AND {ready_undelivered k}
    ORDER BY k.id FOR NO KEY UPDATE OF k SKIP LOCKED
  ));
  DELETE FROM {schema}._batches AS b WHERE b.base = ANY (bases) AND NOT EXISTS (
    SELECT FROM {schema}._in_batches AS i JOIN {schema}._jobs AS k ON k.id = i.id
    WHERE i.base = b.base AND {ready_undelivered k}
  );
END $$;
