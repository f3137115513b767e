-- Make due jobs ready, at most `_limit`; how many. `_after` is the place to start after, {run_at in
-- microseconds, id}: where index entries of such jobs cannot be removed yet (an old snapshot is
-- open) they pile up before it. None is left between that and `reached`, but for those that an open
-- transaction has locked. `entries` is how many index entries were read.
CREATE OR REPLACE FUNCTION {schema}._promote(
  _limit integer, _after bigint[], _now timestamptz DEFAULT NULL,
  OUT count integer, OUT reached bigint[], OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  before bigint := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass);
  tenants text[];
  queues text[];
BEGIN
  WITH due AS MATERIALIZED (
    SELECT j.ctid AS tid FROM {schema}._jobs AS j
    WHERE j.state = 'scheduled' AND j.run_at <= at
      AND (j.run_at, j.id) > (
        timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
    ORDER BY j.run_at, j.id LIMIT _limit FOR NO KEY UPDATE SKIP LOCKED
  ),
  made AS (
    UPDATE {schema}._jobs AS j SET state = {schema}._due_state(j.run_at, j.queue, at) FROM due
    WHERE j.ctid = due.tid AND j.state = 'scheduled'
    RETURNING j.tenant, j.queue, j.run_at, j.id
  )
  SELECT (SELECT count(*) FROM made), q.tenants, q.queues,
    (SELECT ARRAY[{schema}._micros(l.run_at), l.id] FROM made AS l
     ORDER BY l.run_at DESC, l.id DESC LIMIT 1)
  INTO count, tenants, queues, reached FROM (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT m.tenant, m.queue FROM made AS m WHERE m.queue IS NOT NULL) AS d
  ) AS q;
  IF count < _limit THEN
    reached := ARRAY[{schema}._micros(at), 9223372036854775807];
  END IF;
  entries := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass) - before;
  IF queues IS NOT NULL THEN
    PERFORM {schema}._ring(tenants, queues);
  END IF;
  IF count > 0 THEN
    PERFORM pg_notify({channel}, '');
  END IF;
END $$;
