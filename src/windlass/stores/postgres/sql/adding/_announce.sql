-- Tell workers of jobs that were written: bells for the queues in which one waits (with their
-- tenants, place by place), and a hint where one may start or is due soon. Always true.
CREATE OR REPLACE FUNCTION {schema}._announce(
  _tenants text[], _queues text[], _is_due boolean, _is_soon boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF _queues <> '{}' THEN
    PERFORM {schema}._ring(_tenants, _queues);
  END IF;
  IF _is_due THEN
    PERFORM pg_notify({channel}, '');
  END IF;
  IF _is_soon THEN
    PERFORM pg_notify({channel}, 'due');
  END IF;
  RETURN true;
END $$;
