-- The same for jobs that are in the table after their end: those of these that are worth telling.
CREATE OR REPLACE FUNCTION {schema}._post_ends_of(_ids bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  PERFORM {schema}._post_ends(array_agg(j), NULL, NULL, _at)
  FROM {schema}._jobs AS j WHERE j.id = ANY (_ids) AND {told j} HAVING count(*) > 0;
END $$;
