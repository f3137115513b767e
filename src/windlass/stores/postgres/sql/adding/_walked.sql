-- A payload that a program which reads it can represent, or an error: PostgreSQL's json also takes
-- NUL, half characters, numbers of any size and any depth.
CREATE OR REPLACE FUNCTION {schema}._walked(payload json) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  tree jsonb;
BEGIN
  BEGIN
    tree := payload::jsonb;
  EXCEPTION
    WHEN statement_too_complex THEN
      RAISE EXCEPTION 'Payload is nested deeper than 64 levels' USING ERRCODE = 'WLPAY';
    WHEN data_exception THEN
      RAISE EXCEPTION 'Payload has a NUL, half a character or a number that no program can read: %',
        SQLERRM USING ERRCODE = 'WLPAY';
  END;
  IF jsonb_path_exists(
    tree, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")')
  THEN
    RAISE EXCEPTION 'Payload is nested deeper than 64 levels' USING ERRCODE = 'WLPAY';
  END IF;
  IF jsonb_path_exists(tree, 'strict $.** ? (@.type() == "number" &&'
    ' (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
  THEN
    RAISE EXCEPTION 'Payload has a number beyond double precision'
      USING ERRCODE = 'WLPAY', HINT = 'Send it as text.';
  END IF;
  RETURN payload;
END $$;
