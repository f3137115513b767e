-- Until the end of the transaction, what is added, and what is named by its key or its ids, is this
-- tenant's; NULL or '' is the default one, and all for functions that take ids.
CREATE OR REPLACE FUNCTION {schema}.set_tenant(tenant text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF length(tenant) > 128 THEN
    RAISE EXCEPTION 'Tenant must have at most 128 characters, not %', length(tenant)
      USING ERRCODE = '22023';
  END IF;
  PERFORM set_config('windlass.tenant', coalesce(tenant, ''), true);
END $$;
