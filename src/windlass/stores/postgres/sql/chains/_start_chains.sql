-- Start chains for Python: an object with `starts` and `keyed`, as `_begin` says. The answer is the instant
-- and the chains, in the order given; where some may have been there before, or wait for others,
-- `_is_told` asks for the whole of them.
CREATE OR REPLACE FUNCTION {schema}._start_chains(
  _chains text, _is_told boolean, _now timestamptz DEFAULT NULL,
  OUT at_micros bigint, OUT ids bigint[], OUT is_new boolean[], OUT chains text
) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  asked json := _chains::json;
  keyed json := asked -> 'keyed';
  is_ours boolean := keyed IS NOT NULL AND current_setting('lock_timeout') = '0';
  numbers bigint[];
BEGIN
  IF at <> {schema}._finite(at) THEN
    RAISE EXCEPTION 'No job can be added at %', at USING ERRCODE = '22023';
  END IF;
  IF is_ours THEN  -- limit the wait for a key, unless the caller's transaction has a limit
    PERFORM set_config('lock_timeout', '20s', true);
  END IF;
  PERFORM {schema}._require_chains(asked -> 'starts');
  PERFORM {schema}._require_chains(keyed);
  numbers := {schema}._numbers_for(asked -> 'starts', keyed);
  at_micros := {schema}._micros(at);
  ids := {schema}._begin(asked -> 'starts', keyed, numbers, NULL, true, at);
  IF _is_told THEN
    is_new := ARRAY(
      SELECT x.id = x.number FROM unnest(ids, numbers) WITH ORDINALITY AS x (id, number, place)
      ORDER BY x.place
    );
    chains := {schema}._show_chains(ids);
  END IF;
  IF is_ours THEN
    PERFORM set_config('lock_timeout', '0', true);
  END IF;
END $$;
