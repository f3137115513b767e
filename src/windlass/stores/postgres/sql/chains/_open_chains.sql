-- These chains, which had ended, are open again. The caller has seen that no other open chain has the key
-- of one: if one has come meanwhile the call fails, and is made again.
CREATE OR REPLACE FUNCTION {schema}._open_chains(_chains bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}._chains AS c SET
    state = 'open', output = NULL, error = NULL, finished_at = NULL, aged_at = NULL,
    ended_by = NULL, openings = c.openings + 1
  WHERE c.id = ANY (_chains);
EXCEPTION WHEN unique_violation THEN
  RAISE EXCEPTION 'Another chain has taken the key meanwhile'
    USING ERRCODE = 'serialization_failure';
END $$;
