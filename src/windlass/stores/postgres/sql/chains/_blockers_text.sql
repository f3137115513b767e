-- The chains that a job named, as a lease carries them: a JSON array in the order given. NULL where it
-- named none, and where their texts are too long for a lease.
CREATE OR REPLACE FUNCTION {schema}._blockers_text(j {schema}._jobs) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  IF j.blockers_total IS NULL OR (
    SELECT sum(octet_length(c.payload::text) + coalesce(octet_length(c.output::text), 0))
    FROM {schema}._blockers AS b JOIN {schema}._chains AS c ON c.id = b.chain
    WHERE b.job = j.id
  ) > {most_blocker_text} THEN
    RETURN NULL;
  END IF;
  RETURN {schema}._named_chains(j.id, j.tenant, j.updated_at);
END $$;
