-- Write how these chains end. The ids of those that are there: one that failed long ago was pruned, and
-- no open job names it.
CREATE OR REPLACE FUNCTION {schema}._write_ends(_ends {schema}._chain_end[], _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
BEGIN
  WITH written AS (
    UPDATE {schema}._chains AS c SET
      state = e.state, output = e.output, error = e.error, length = e.length,
      finished_at = _at, aged_at = _at, ended_by = e.token
    FROM unnest(_ends) AS e WHERE c.id BETWEEN e.chain AND e.chain
    RETURNING c.id
  )
  SELECT array_agg(w.id) INTO ids FROM written AS w;
  RETURN ids;
END $$;
