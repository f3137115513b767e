-- Every job that ends passes here, whichever way it ends: completed, failed, cancelled, parked by the
-- reaper, removed by its key or deleted. The caller gives the ids of the jobs that end in this
-- transaction, and, place by place, the tenants and names of the queues in which one of them was the
-- head, or which it held: these go on. Whether there are any. `_ends` says how chains end with them, and
-- then the jobs are written already.
--
-- Simple jobs (`_is_simple`) that an operator ends without locking them first do not pass here:
-- nothing hangs on the end of such a job.
CREATE OR REPLACE FUNCTION {schema}._ended(
  _ids bigint[], _tenants text[], _queues text[], _ends {schema}._chain_end[] DEFAULT NULL,
  _at timestamptz DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(_ends) > 0 THEN
    PERFORM {schema}._end_chains(_ends, _at);
  END IF;
  IF _queues IS NULL THEN
    RETURN false;
  END IF;
  PERFORM {schema}._ring(_tenants, _queues);
  RETURN true;
END $$;
