-- Every chain that ends passes here, but for those that fail with another: `_tell` ends these. The caller
-- has locked the current job of each. In a statement of its own each, which sees what was committed
-- before it began: the chains are written, and so locked; then the jobs that named them are told. A
-- job that is added meanwhile, and that neither sees the end nor is seen here, has rung a bell.
CREATE OR REPLACE FUNCTION {schema}._end_chains(_ends {schema}._chain_end[], _at timestamptz)
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
  PERFORM {schema}._need_read_committed();
  PERFORM {schema}._tell(
    {schema}._write_ends(_ends, _at), NULL,
    EXISTS (SELECT FROM unnest(_ends) AS e WHERE e.state <> 'completed'), _at);
END $$;
