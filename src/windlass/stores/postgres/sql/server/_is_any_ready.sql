-- The same for any task of these tenants but those of Windlass's own.
CREATE OR REPLACE FUNCTION {schema}._is_any_ready(_tenants text[], _batched int8multirange)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  owner text;
  next text;
BEGIN
  FOREACH owner IN ARRAY _tenants LOOP
    next := '';
    LOOP
      next := {schema}._next_ready_task(owner, next);
      EXIT WHEN next IS NULL;
      CONTINUE WHEN {reserved next};
      IF {schema}._is_ready(owner, next, _batched) THEN
        RETURN true;
      END IF;
    END LOOP;
  END LOOP;
  RETURN false;
END $$;
