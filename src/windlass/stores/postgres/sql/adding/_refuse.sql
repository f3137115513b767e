-- Refuse a request that no job may come of, with one clear error.
CREATE OR REPLACE FUNCTION {schema}._refuse(
  task text, queue text, key text, max_attempts integer, flags text[], keep float8, tenant text
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF task IS NULL OR length(task) NOT BETWEEN 1 AND 128 THEN
    RAISE EXCEPTION 'Task identifier must have 1 to 128 characters, not %',
      coalesce(length(task), 0) USING ERRCODE = 'GWBID';
  ELSIF length(queue) NOT BETWEEN 1 AND 128 THEN
    RAISE EXCEPTION 'Queue name must have 1 to 128 characters, not %', length(queue)
      USING ERRCODE = 'GWBQN';
  ELSIF length(key) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION 'Job key must have 1 to 512 characters, not %', length(key)
      USING ERRCODE = 'GWBJK';
  ELSIF max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', max_attempts
      USING ERRCODE = 'GWBMA';
  ELSIF length(tenant) > 128 THEN
    RAISE EXCEPTION 'Tenant must have at most 128 characters, not %', length(tenant)
      USING ERRCODE = '22023';
  ELSIF keep IS DISTINCT FROM {schema}._span(keep) THEN
    RAISE EXCEPTION 'A job cannot be kept for % seconds', keep USING ERRCODE = '22023';
  END IF;
  RAISE EXCEPTION 'Flags must be a list of at most 64 texts, none empty, 8192 characters in all'
    USING ERRCODE = '22023';
END $$;
