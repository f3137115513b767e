-- Jobs that were just added or replaced by their keys wait for the chains they name: `_jobs` as `_add_jobs`
-- has them, with their `_ids`. Of several with one key the last counts that is not `unsafe_dedupe`. Where
-- all are, the first counts if the job is new; one that was there before them stays as it is. Each after the
-- first adds one to the revision, with which a new job begins at zero.
CREATE OR REPLACE FUNCTION {schema}._block(_jobs json, _ids bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  new record;
  blocked bigint[] := '{}';
BEGIN
  FOR new IN
    SELECT x.id, x.blockers FROM (
      SELECT DISTINCT ON (y.id)
        y.id, r.blockers, y.is_dedupe, count(*) OVER (PARTITION BY y.id) AS asked
      FROM ROWS FROM (json_to_recordset(_jobs) AS (blockers bigint[], key_mode text))
        WITH ORDINALITY AS r (blockers, key_mode, place)
      CROSS JOIN LATERAL (
        SELECT _ids[r.place] AS id, r.key_mode IS NOT DISTINCT FROM 'unsafe_dedupe' AS is_dedupe
      ) AS y
      ORDER BY y.id, y.is_dedupe, CASE WHEN y.is_dedupe THEN r.place ELSE -r.place END
    ) AS x
    JOIN {schema}._jobs AS j ON j.id = x.id
    WHERE x.blockers <> '{}' AND (NOT x.is_dedupe OR j.revision = x.asked - 1)
  LOOP
    INSERT INTO {schema}._blockers (job, place, chain)
    SELECT new.id, r.n - 1, r.chain
    FROM unnest(new.blockers) WITH ORDINALITY AS r (chain, n);
    UPDATE {schema}._jobs AS j SET
      state = 'blocked', blockers_open = n.count, blockers_total = n.count
    FROM (
      SELECT count(DISTINCT r.chain) AS count FROM unnest(new.blockers) AS r (chain)
    ) AS n
    WHERE j.id = new.id;
    blocked := blocked || new.id;
  END LOOP;
  PERFORM {schema}._stand(blocked, _at);
END $$;
