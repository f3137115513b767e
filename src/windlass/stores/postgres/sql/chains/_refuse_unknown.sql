-- Refuse these chains, which are not there, if there are any.
CREATE OR REPLACE FUNCTION {schema}._refuse_unknown(_chains bigint[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF _chains <> '{}' THEN
    RAISE EXCEPTION 'There is no chain %', array_to_string(_chains, ', ')
      USING ERRCODE = 'WLCNF', DETAIL = array_to_string(_chains, ',');
  END IF;
END $$;
