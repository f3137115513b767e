-- A job as it is seen: one in a batch is running.
CREATE OR REPLACE FUNCTION {schema}._as_seen(j {schema}._jobs) RETURNS {schema}._jobs
LANGUAGE plpgsql STABLE AS $$
DECLARE
  b {schema}._batches;
BEGIN
  IF {ready_undelivered j} THEN
    SELECT k.* INTO b FROM {schema}._batches AS k WHERE k.ids @> j.id LIMIT 1;
    IF FOUND THEN
      RETURN {schema}._as_running(j, b.base, b.worker, b.claimed_at);
    END IF;
  END IF;
  RETURN j;
END $$;
