-- These chains, which had ended, are open again; and jobs that failed because of them wait again, with
-- their own chains, and so on. The caller has locked the current job of each.
CREATE OR REPLACE FUNCTION {schema}._reopen(_chains bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF _chains <> '{}' THEN
    PERFORM {schema}._open_chains(_chains);
    PERFORM {schema}._restore_all(_chains, _at);
  END IF;
END $$;
