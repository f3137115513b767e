-- Add jobs without keys that wait for chains: an object with `links`, groups as `_add_links` says. Their
-- ids, in the order given.
CREATE OR REPLACE FUNCTION {schema}._add_linked(_jobs json, _at timestamptz) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
BEGIN
  PERFORM {schema}._require_chains(_jobs -> 'links');
  ids := {schema}._numbers_for(_jobs -> 'links', NULL);
  PERFORM {schema}._add_links(_jobs -> 'links', ids, NULL, NULL, NULL, NULL, false, true, _at);
  RETURN ids;
END $$;
