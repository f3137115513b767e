-- These jobs, which are over or have just been brought back, wait for every chain that is not met; those
-- for which there is none stay in the state they are in. The caller has locked them, and lets them look
-- at the chains then.
CREATE OR REPLACE FUNCTION {schema}._wait_again(_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}._blockers AS b SET state = 'open'
  WHERE b.job = ANY (_jobs) AND b.state = 'failed';
  UPDATE {schema}._jobs AS j SET
    blockers_open = n.count,
    state = CASE WHEN n.count > 0 THEN 'blocked' ELSE j.state END
  FROM (
    SELECT x.id, (
      SELECT count(DISTINCT b.chain) FROM {schema}._blockers AS b
      WHERE b.job = x.id AND b.state <> 'met'
    ) AS count
    FROM unnest(_jobs) AS x (id)
  ) AS n
  WHERE j.id = n.id;
END $$;
