-- Blocked jobs that this transaction has written look at the chains that they wait for: of those that
-- have ended, as far as this transaction sees, they learn at once. Nothing is locked, so an open
-- transaction that adds such jobs makes no other wait. A chain may be ending just now without being
-- seen here, and its end without seeing these jobs: so a claim is to look again.
CREATE OR REPLACE FUNCTION {schema}._stand(_jobs bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  failed bigint[];
BEGIN
  failed := {schema}._look_at_chains(_jobs, _at);
  IF failed <> '{}' THEN
    -- Without a look at the isolation: jobs that wait for a chain which begins here are in this
    -- transaction, too, and where a chain goes on the caller has looked.
    PERFORM {schema}._tell(
      {schema}._write_ends({schema}._ends_of(failed), _at), NULL, true, _at);
  END IF;
END $$;
