-- The chains that go where these are deleted: those that the tenant sees (NULL sees all), and with
-- `_cascade` those that their jobs named, as far as these are stored, and so on.
CREATE OR REPLACE FUNCTION {schema}._doomed_chains(
  _ids bigint[], _cascade boolean, _tenant text
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
  RETURN ARRAY(
    WITH RECURSIVE doomed (id) AS (
      SELECT c.id FROM {schema}._chains AS c
      WHERE c.id = ANY (_ids) AND (_tenant IS NULL OR c.tenant = _tenant)
      UNION
      SELECT c.id FROM doomed AS d
      CROSS JOIN LATERAL (
        SELECT j.id FROM {schema}._jobs AS j
        WHERE j.chain = d.id AND j.blockers_total IS NOT NULL
        UNION ALL
        SELECT h.id FROM {schema}._history AS h
        WHERE h.chain = d.id AND h.blockers_total IS NOT NULL
      ) AS j
      JOIN {schema}._blockers AS b ON b.job = j.id
      JOIN {schema}._chains AS c ON c.id = b.chain
      WHERE _cascade AND (_tenant IS NULL OR c.tenant = _tenant)
    )
    SELECT d.id FROM doomed AS d
    ORDER BY coalesce(array_position(_ids, d.id), cardinality(_ids) + 1), d.id
  );
END $$;
