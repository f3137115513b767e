-- The chains that a job named, in the order given, as a JSON array of chains. Of one that is not there
-- any more only its id is known. NULL where their payloads and outputs have more than `_most` bytes.
CREATE OR REPLACE FUNCTION {schema}._named_chains(
  _job bigint, _tenant text, _since timestamptz, _most integer DEFAULT NULL
) RETURNS text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  IF _most IS NOT NULL AND (
    SELECT sum(octet_length(c.payload::text) + coalesce(octet_length(c.output::text), 0))
    FROM {schema}._blockers AS b JOIN {schema}._chains AS c ON c.id = b.chain
    WHERE b.job = _job
  ) > _most THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT '[' || string_agg(CASE
      WHEN c.id IS NOT NULL THEN {schema}._chain_text(c)
      ELSE {schema}._chain_text({schema}._deleted_chain(b.chain, _tenant, _since))
    END, ',' ORDER BY b.place) || ']'
    FROM {schema}._blockers AS b LEFT JOIN {schema}._chains AS c ON c.id = b.chain
    WHERE b.job = _job
  );
END $$;
