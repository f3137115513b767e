-- Whether a claim for these tasks (NULL for every one) and tenants may find one of these suspects, of which
-- `_suspects` are the tasks and `_owners` the tenants, place by place; NULL is any.
CREATE OR REPLACE FUNCTION {schema}._is_suspect(
  _tasks text[], _tenants text[], _suspects text[], _owners text[]
) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM unnest(_suspects, _owners) AS s (task, tenant)
    WHERE s.task IS NULL OR (
      CASE WHEN _tasks IS NULL THEN NOT {reserved s.task} ELSE s.task = ANY (_tasks) END
      AND (s.tenant = ANY (_tenants)
        OR s.tenant <> '' AND array_position(_tenants, NULL) IS NOT NULL) IS TRUE
    )
  );
END $$;
