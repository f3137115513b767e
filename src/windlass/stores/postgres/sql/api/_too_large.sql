-- The error of a payload that is too large.
CREATE OR REPLACE FUNCTION {schema}._too_large(payload json, most bigint) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RAISE EXCEPTION 'Payload has % bytes, more than the % allowed', octet_length(payload::text), most
    USING ERRCODE = 'WLPAY',
      HINT = 'Store the data elsewhere and pass its id, or set windlass.max_payload.';
END $$;
