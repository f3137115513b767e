-- Delete jobs of the tenant, or of all (NULL), also completed ones that are kept; running jobs and jobs of open chains are passed over. The
-- jobs as they were, as a JSON array of rows. The history comes after the jobs: what another transaction
-- has completed, while this waited for it, is found there.
CREATE OR REPLACE FUNCTION {schema}._delete_jobs(_ids bigint[], _tenant text) RETURNS text
LANGUAGE plpgsql
SET lock_timeout = '10s' SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  gone bigint[];
  tenants text[];
  queues text[];
  waited bigint[];
  rows text;
  kept_waited bigint[];
  kept_rows text;
BEGIN
  PERFORM {schema}._need_read_committed();
  gone := ({schema}._unbatch({schema}._of_tenant(_ids, _tenant), false)).locked;
  WITH deleted AS (
    DELETE FROM {schema}._jobs AS j
    WHERE j.id = ANY (gone) AND j.state IN ({states_of_delete}) AND NOT EXISTS (
      SELECT FROM {schema}._chains AS c WHERE c.id = j.chain AND c.state = 'open'
    )
    RETURNING j.id, j.tenant, j.blockers_total, {schema}._freed(j) AS queue,
      {schema}._row(j, NULL)::text AS row
  )
  SELECT array_agg(d.id), array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL), string_agg(d.row, ',')
  INTO gone, tenants, queues, waited, rows FROM deleted AS d;
  WITH deleted AS (
    DELETE FROM {schema}._history AS h
    WHERE h.id = ANY (ARRAY(
      SELECT o.id FROM {schema}._history AS o
      WHERE o.id = ANY (_ids) AND (_tenant IS NULL OR o.tenant = _tenant)
      ORDER BY o.id FOR UPDATE
    )) AND NOT EXISTS (
      SELECT FROM {schema}._chains AS c WHERE c.id = h.chain AND c.state = 'open'
    )
    RETURNING h.id, h.blockers_total, {schema}._history_row(h)::text AS row
  )
  SELECT array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL), string_agg(d.row, ',')
  INTO kept_waited, kept_rows FROM deleted AS d;
  PERFORM {schema}._drop_blockers(waited || kept_waited);
  PERFORM pg_notify({channel}, '') WHERE {schema}._ended(gone, tenants, queues);
  RETURN '[' || concat_ws(',', rows, kept_rows) || ']';
END $$;
