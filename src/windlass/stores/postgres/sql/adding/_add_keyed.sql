-- Add many jobs, some of them with keys, or change those that have these keys. Their ids, in the
-- order given. `_mode` is the mode of all of them, and NULL where they differ.
CREATE OR REPLACE FUNCTION {schema}._add_keyed(
  _requests {schema}._request[], _mode text, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  ids bigint[];
  request record;
  numbers bigint[];
BEGIN
  numbers := ARRAY(
    SELECT nextval({sequence}) FROM generate_series(1, cardinality(_requests))
  );
  IF _mode IN ('replace', 'preserve_run_at') AND cardinality(_requests) > 1 THEN
    IF NOT EXISTS (
      SELECT FROM unnest(_requests) AS r WHERE (
        SELECT true FROM {schema}._jobs AS j
        WHERE j.key = r.key AND j.tenant = r.tenant AND j.state <> 'cancelled'
      )
    ) THEN
      BEGIN
        RETURN {schema}._write_new(_requests, numbers, _mode, _at);
      EXCEPTION WHEN unique_violation THEN
        NULL;  -- undone: a key has come meanwhile, or comes twice
      END;
    END IF;
    ids := {schema}._write_any(_requests, numbers, _mode, _at);
    IF array_position(ids, NULL) IS NULL THEN
      RETURN ids;
    END IF;
  END IF;
  FOR request IN
    SELECT r.ordinality AS place FROM unnest(_requests) WITH ORDINALITY AS r
    WHERE ids[r.ordinality] IS NULL
    ORDER BY r.key NULLS FIRST, r.tenant, r.ordinality
  LOOP
    ids[request.place] := {schema}._add_job(_requests[request.place], _at, numbers[request.place]);
  END LOOP;
  RETURN ids;
END $$;
