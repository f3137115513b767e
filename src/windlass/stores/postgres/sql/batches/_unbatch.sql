-- For callers that change these jobs: lock them, whatever state they are in (a job that is
-- scheduled now may be in a batch in a moment), and take out those in batches. Waits for claims
-- under way. Running rows are locked only `_with_running`. Answers which are locked (if the caller
-- locked others, that would be out of order), and the queues, with their tenants place by place, whose
-- heads or holders are among them.
CREATE OR REPLACE FUNCTION {schema}._unbatch(
  _ids bigint[], _with_running boolean, OUT locked bigint[], OUT tenants text[], OUT queues text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  is_any boolean;
BEGIN
  SELECT
    coalesce(array_agg(l.id), '{}'),
    array_agg(l.tenant) FILTER (WHERE l.freed IS NOT NULL),
    array_agg(l.freed) FILTER (WHERE l.freed IS NOT NULL),
    bool_or({ready_undelivered l} AND {plain l})
  INTO locked, tenants, queues, is_any FROM (
    SELECT k.id, k.state, k.deliveries, k.key, k.queue, k.tenant,
      CASE WHEN k.state = 'ready' OR k.holds THEN k.queue END AS freed
    FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND (_with_running OR k.state <> 'running')
    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE
  ) AS l;
  IF is_any THEN
    PERFORM {schema}._need_read_committed();
    PERFORM {schema}._take_out(locked);
  END IF;
END $$;
