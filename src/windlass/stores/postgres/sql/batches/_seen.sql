-- Where all jobs of a call are simple they are changed first and looked for in batches afterwards,
-- which is one pass over their rows in place of two: a statement locks and changes them in the
-- order of their ids, but for those in batches that `_seen` has found, and then `_look_again`
-- refuses the change if there is a batch that `_seen` has not found. The caller undoes it, and goes
-- the way of `_unbatch`.
--
-- The jobs in batches, and these batches; NULL where not all jobs of the call are simple, or where
-- the transaction has one snapshot for all its statements and could not look again.
CREATE OR REPLACE FUNCTION {schema}._seen(
  _ids bigint[], OUT bases bigint[], OUT batched int8multirange
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
  IF current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND NOT {schema}._is_simple(k)
  ) THEN
    SELECT coalesce(array_agg(DISTINCT b.base), '{}'), coalesce(range_agg(r.span), '{}')
    INTO bases, batched
    FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span);
  END IF;
END $$;
