-- Of these pairs of jobs and chains, chains that have `_most` jobs here may have more: a claim is to
-- tell those after the last.
CREATE OR REPLACE FUNCTION {schema}._ring_on(_jobs bigint[], _chains bigint[], _most integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}._bells (tenant, chain, after, rung_at)
  SELECT c.tenant, f.chain, f.last, clock_timestamp() FROM (
    SELECT p.chain, max(p.job) AS last FROM unnest(_jobs, _chains) AS p (job, chain)
    GROUP BY p.chain HAVING count(*) >= _most
  ) AS f JOIN {schema}._chains AS c ON c.id = f.chain;
  PERFORM pg_notify({channel}, '') WHERE FOUND;
END $$;
