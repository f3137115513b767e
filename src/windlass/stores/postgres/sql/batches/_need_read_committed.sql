-- Refuse a transaction that has one snapshot for all its statements.
CREATE OR REPLACE FUNCTION {schema}._need_read_committed() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'Jobs cannot be claimed or changed in a % transaction',
      upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'WLISO', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
END $$;
