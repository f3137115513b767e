-- Lock the row of a worker that is about to take jobs; its number. A call that ends the worker, or
-- asks what became of this claim, locks that row too. If it comes later, it sees this claim. If it
-- came first, this claim fails here: its caller makes it again, or has given it up. It does not
-- wait for the lock: it has locked jobs, and maybe the latch.
CREATE OR REPLACE FUNCTION {schema}._lock_worker(_number bigint, _worker text, _base bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM {schema}._workers AS w
  WHERE w.id = _number AND (w.refused IS NULL OR _base <> ALL (w.refused))
  FOR KEY SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'The worker % was ended, or has given up this claim', _worker
      USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN _number;
END $$;
