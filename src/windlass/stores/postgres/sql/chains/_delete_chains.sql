-- Delete these chains with their jobs, all or none; with `_cascade` the chains that their jobs named, too,
-- and so on. Unknown ids are passed over. Refused where an open job of another chain names one that is
-- open or completed; of a chain that failed or was cancelled it has nothing more to expect, and waits
-- no longer. Answers the chains that are gone, as a JSON array.
CREATE OR REPLACE FUNCTION {schema}._delete_chains(
  _ids bigint[], _cascade boolean, _tenant text, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s' SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  doomed bigint[] := '{}';
  wanted bigint[];
  jobs bigint[];
  tenants text[];
  queues text[];
  gone text;
BEGIN
  LOOP
    wanted := {schema}._doomed_chains(_ids, _cascade, _tenant);
    EXIT WHEN wanted <@ doomed;
    doomed := wanted;
    jobs := {schema}._lock_chains(doomed);
  END LOOP;
  PERFORM FROM {schema}._chains AS c WHERE c.id = ANY (doomed) ORDER BY c.id FOR UPDATE;
  PERFORM {schema}._refuse_references(wanted);
  WITH deleted AS (
    DELETE FROM {schema}._jobs AS j WHERE j.chain = ANY (wanted)
    RETURNING j.id, j.tenant, {schema}._freed(j) AS queue
  )
  SELECT array_agg(d.id), array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
  INTO jobs, tenants, queues FROM deleted AS d;
  PERFORM {schema}._ended(jobs, tenants, queues);
  PERFORM {schema}._drop_blockers(jobs);
  PERFORM FROM {schema}._history AS h WHERE h.chain = ANY (wanted) ORDER BY h.id FOR UPDATE;
  WITH deleted AS (
    DELETE FROM {schema}._history AS h WHERE h.chain = ANY (wanted)
    RETURNING h.id, h.blockers_total
  )
  SELECT array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL) INTO jobs FROM deleted AS d;
  PERFORM {schema}._drop_blockers(jobs);
  WITH deleted AS (
    DELETE FROM {schema}._chains AS c WHERE c.id = ANY (wanted) RETURNING c AS chain
  )
  SELECT '[' || string_agg({schema}._chain_text(d.chain), ',' ORDER BY x.place) || ']' INTO gone
  FROM deleted AS d JOIN unnest(wanted) WITH ORDINALITY AS x (id, place) ON x.id = (d.chain).id;
  PERFORM {schema}._tell(wanted, NULL, false, at);
  PERFORM pg_notify({channel}, '');
  RETURN gone;
END $$;
