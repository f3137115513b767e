-- Add jobs for Python: a JSON array of them (`_add_jobs`), or an object where they differ in nothing but
-- their payloads (`_add_alike`), or where they have no keys and some wait for chains (`_add_linked`). The
-- answer is the instant and the ids; where some have keys, and may have been there before, or wait for
-- chains, `_is_keyed` asks for the whole rows.
CREATE OR REPLACE FUNCTION {schema}._enqueue(
  _jobs text, _is_keyed boolean, _now timestamptz DEFAULT NULL,
  OUT at_micros bigint, OUT ids bigint[], OUT jobs text
) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  is_ours boolean := _is_keyed AND current_setting('lock_timeout') = '0';
BEGIN
  IF at <> {schema}._finite(at) THEN
    RAISE EXCEPTION 'No job can be added at %', at USING ERRCODE = '22023';
  END IF;
  IF is_ours THEN  -- limit the wait for a key, unless the caller's transaction has a limit
    PERFORM set_config('lock_timeout', '20s', true);
  END IF;
  at_micros := {schema}._micros(at);
  ids := CASE
    WHEN starts_with(_jobs, '{"links"') THEN {schema}._add_linked(_jobs::json, at)
    WHEN starts_with(_jobs, '{') THEN {schema}._add_alike(_jobs::json, at)
    ELSE {schema}._add_jobs(_jobs::json, _is_keyed, at)
  END;
  IF _is_keyed THEN
    SELECT json_agg({schema}._row(j, w.name) ORDER BY x.place)::text INTO jobs
    FROM unnest(ids) WITH ORDINALITY AS x (id, place) JOIN {schema}._jobs AS j ON j.id = x.id
    LEFT JOIN {schema}._workers AS w ON w.id = j.worker;
  END IF;
  IF is_ours THEN
    PERFORM set_config('lock_timeout', '0', true);
  END IF;
END $$;
