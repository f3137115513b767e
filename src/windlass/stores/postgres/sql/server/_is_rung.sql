-- Whether a bell has rung for one of these tenants but the default one; NULL among them stands for all of
-- these.
CREATE OR REPLACE FUNCTION {schema}._is_rung(_tenants text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN array_position(_tenants, NULL) IS NOT NULL OR EXISTS (
    SELECT FROM unnest(_tenants) AS t (name) CROSS JOIN LATERAL (
      SELECT FROM {schema}._bells AS b WHERE b.tenant <> '' AND b.tenant = t.name LIMIT 1
    ) AS r
  );
END $$;
