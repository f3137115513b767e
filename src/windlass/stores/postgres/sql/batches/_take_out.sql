-- Make running rows of those of these jobs that are in batches. The caller has locked them.
CREATE OR REPLACE FUNCTION {schema}._take_out(_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}._jobs AS j SET
    state = 'running', token = b.base + j.id, worker = b.worker, claimed_at = b.claimed_at,
    attempts = j.attempts + 1, deliveries = 1
  FROM unnest(_ids) AS x (id) JOIN {schema}._in_batches AS b ON b.id = x.id
  WHERE j.id BETWEEN x.id AND x.id AND {ready_undelivered j};
END $$;
