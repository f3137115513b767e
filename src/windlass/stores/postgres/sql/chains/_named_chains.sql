-- The chains that a job named, in the order given, as a JSON array of chains. Of one that is not there
-- any more only its id is known.
CREATE OR REPLACE FUNCTION {schema}._named_chains(_job bigint, _tenant text, _since timestamptz)
RETURNS text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  RETURN (
    SELECT '[' || string_agg(CASE
      WHEN c.id IS NOT NULL THEN {schema}._chain_row(c)::text
      ELSE {schema}._chain_row({schema}._deleted_chain(b.chain, _tenant, _since))::text
    END, ',' ORDER BY b.place) || ']'
    FROM {schema}._blockers AS b LEFT JOIN {schema}._chains AS c ON c.id = b.chain
    WHERE b.job = _job
  );
END $$;
