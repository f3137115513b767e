-- The same as `_settle_linked`, one by one, for completions that may be refused (they name chains that are
-- there already) or that may have to wait for a key. A JSON array of objects; an array with the answer to
-- each. Nothing is written of one that is refused, or that is busy: then an open transaction has
-- locked the job or has the key, or another call is just looking for cycles.
CREATE OR REPLACE FUNCTION {schema}._settle_asking(_asked text, _now timestamptz DEFAULT NULL)
RETURNS text LANGUAGE plpgsql
SET lock_timeout = '20ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  answers text[] := '{}';
  x record;
  j {schema}._jobs;
  answer text;
BEGIN
  PERFORM {schema}._need_read_committed();
  FOR x IN
    SELECT y.* FROM json_to_recordset(_asked::json) AS y (
      id bigint, token bigint, chain bigint, output json, keep float8, goes_on boolean,
      nexts json, starts json, keyed json, owners integer[])
  LOOP
    BEGIN
      SELECT k.* INTO j FROM {schema}._jobs AS k WHERE k.id = x.id FOR UPDATE SKIP LOCKED;
      IF NOT FOUND OR NOT {schema}._is_owned(j, x.token) THEN
        answer := {schema}._unsettled(x.id, x.token, x.chain);
      ELSE
        answer := coalesce(
          {schema}._refuse_links(j, x.nexts, x.starts, x.keyed, at),
          {schema}._settle_linked(
            ARRAY[x.id], ARRAY[x.token], ARRAY[x.chain], ARRAY[x.output], ARRAY[x.keep],
            ARRAY[x.goes_on], x.nexts, x.starts, x.keyed, x.owners, true, true, _now)
            ::json ->> 0,
          'completed');
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      answer := 'busy';
    END;
    answers := answers || answer;
  END LOOP;
  RETURN array_to_json(answers)::text;
END $$;
