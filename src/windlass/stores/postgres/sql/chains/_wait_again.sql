-- These jobs, which are over or have just been brought back, wait for every chain that is not met; those
-- for which there is none stay in the state they are in. The caller has locked them, and lets them look
-- at the chains then. One that waits holds no queue: what it waits for may be in the same one.
CREATE OR REPLACE FUNCTION {schema}._wait_again(_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM {schema}._ring(array_agg(j.tenant), array_agg(j.queue))
  FROM {schema}._jobs AS j WHERE j.id = ANY (_jobs) AND j.holds;
  UPDATE {schema}._blockers AS b SET state = 'open'
  WHERE b.job = ANY (_jobs) AND b.state = 'failed';
  UPDATE {schema}._jobs AS j SET
    blockers_open = n.count,
    holds = j.holds AND n.count = 0,
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
