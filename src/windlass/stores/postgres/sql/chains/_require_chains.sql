-- Refuse groups, as `_add_links` says, that name chains which are not there for their tenant.
CREATE OR REPLACE FUNCTION {schema}._require_chains(_groups json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM {schema}._refuse_unknown({schema}._unknown_chains(_groups));
END $$;
