-- Whether this task is paused for this tenant.
CREATE OR REPLACE FUNCTION {schema}._is_paused(_tenant text, _task text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM {schema}._paused AS p
    WHERE p.tenant = _tenant AND p.kind = 'task' AND p.name = _task
  );
END $$;
