-- What follows where jobs that were over may run again; the caller has locked them, has made sure that
-- they may (`_check_retry`), and has written the state in which they would be without chains. They wait
-- for the chains that are still open, their own chains are open again, and so on.
CREATE OR REPLACE FUNCTION {schema}._bring_back(_jobs bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  waiting bigint[];
BEGIN
  waiting := ARRAY(
    SELECT j.id FROM {schema}._jobs AS j
    WHERE j.id = ANY (_jobs) AND j.blockers_total IS NOT NULL
  );
  IF waiting <> '{}' THEN
    PERFORM {schema}._wait_again(waiting);
    PERFORM {schema}._stand(waiting, _at);
  END IF;
  -- A chain that failed long ago was pruned, and begins anew with its failed job.
  WITH begun AS (
    INSERT INTO {schema}._chains (id, tenant, task, payload, created_at, openings)
    SELECT j.chain, j.tenant, j.task, j.payload, j.created_at, 1 FROM {schema}._jobs AS j
    WHERE j.id = ANY (_jobs) AND j.chain IS NOT NULL AND j.state <> 'failed'
    ON CONFLICT (id) DO NOTHING
    RETURNING id
  )
  SELECT array_agg(b.id) INTO waiting FROM begun AS b;
  PERFORM {schema}._restore_all(waiting, _at);
  PERFORM {schema}._reopen(ARRAY(
    SELECT c.id FROM {schema}._jobs AS j JOIN {schema}._chains AS c ON c.id = j.chain
    WHERE j.id = ANY (_jobs) AND j.state <> 'failed' AND c.state <> 'open'
  ), _at);
END $$;
