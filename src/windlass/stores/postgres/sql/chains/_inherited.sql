-- A group of one job, as `_add_links` says, with the fields of this job that it inherits, if there is
-- one, and with the tenant. The payload stays as it was written: it is no part of what is put together.
CREATE OR REPLACE FUNCTION {schema}._inherited(
  _group json, j {schema}._jobs, _inherits text[], _tenant text
) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
  own jsonb := (
    SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}')
    FROM json_each(_group -> 0) AS f WHERE f.key <> 'payloads'
  );
BEGIN
  IF j.id IS NOT NULL THEN
    own := own || (
      SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}')
      FROM jsonb_each(to_jsonb(j)) AS f WHERE f.key = ANY (_inherits)
    );
  END IF;
  own := own || jsonb_build_object('tenant', _tenant);
  RETURN ('[' || left(own::text, -1) || ',"payloads":' || (_group -> 0 ->> 'payloads') || '}]')::json;
END $$;
