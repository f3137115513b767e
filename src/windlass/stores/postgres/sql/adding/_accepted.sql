-- The task of a request that a job may come of.
CREATE OR REPLACE FUNCTION {schema}._accepted(
  task text, queue text, key text, max_attempts integer, flags text[], keep float8, tenant text
) RETURNS text LANGUAGE sql STABLE
RETURN CASE
  WHEN task IS NOT NULL AND (
    length(task) BETWEEN 1 AND 128 AND length(queue) BETWEEN 1 AND 128
    AND length(key) BETWEEN 1 AND 512 AND max_attempts >= 1 AND keep BETWEEN 0 AND {longest}
    AND length(tenant) <= 128
    AND array_ndims(flags) = 1 AND cardinality(flags) <= 64
    AND (flags IS NULL OR array_position(flags, NULL) IS NULL
      AND array_position(flags, '') IS NULL AND length(array_to_string(flags, '')) <= 8192)
  ) IS NOT FALSE THEN task
  ELSE {schema}._refuse(task, queue, key, max_attempts, flags, keep, tenant)
END;
