-- Delete failed jobs of the tenant, or of all (NULL), the oldest first, at most `_limit`; how many.
CREATE OR REPLACE FUNCTION {schema}._delete_failed(_limit integer, _tenant text) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  gone bigint[];
  tenants text[];
  queues text[];
  waited bigint[];
BEGIN
  WITH deleted AS (
    DELETE FROM {schema}._jobs AS j WHERE j.ctid = ANY (ARRAY(
      SELECT o.ctid FROM {schema}._jobs AS o
      WHERE o.state = 'failed' AND (_tenant IS NULL OR o.tenant = _tenant)
      ORDER BY o.id LIMIT _limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING j.id, j.tenant, j.blockers_total, {schema}._freed(j) AS queue
  )
  SELECT array_agg(d.id), array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL)
  INTO gone, tenants, queues, waited FROM deleted AS d;
  PERFORM {schema}._drop_blockers(waited);
  PERFORM pg_notify({channel}, '') WHERE {schema}._ended(gone, tenants, queues);
  RETURN coalesce(cardinality(gone), 0);
END $$;
