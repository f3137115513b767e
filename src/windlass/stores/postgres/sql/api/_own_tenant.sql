-- The tenant that `set_tenant` has named in this transaction, or the default one.
CREATE OR REPLACE FUNCTION {schema}._own_tenant() RETURNS text LANGUAGE sql STABLE
RETURN coalesce(current_setting('windlass.tenant', true), '');
