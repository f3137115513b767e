-- Of the jobs that a claim for all tenants has picked, those whose task is paused for their tenant are
-- parked: they wait, where no claim reads them, until `_resume`. `left_over` are the others, and `count` is
-- how many were parked. Behind the latch, and asked once more there: a resume that comes first is
-- seen, and one that comes later sees the parked jobs. Where another call has the latch nothing is
-- parked, and `is_refused` says so.
--
-- With them up to a thousand others of the same task and tenant are parked, so that many of them cost
-- few claims. They are locked first, and looked for in batches afterwards, as `_pick` says.
CREATE OR REPLACE FUNCTION {schema}._park(
  _picked tid[], OUT left_over tid[], OUT count integer, OUT is_refused boolean
) LANGUAGE plpgsql AS $$
DECLARE
  met tid[];
  tenants text[];
  queues text[];
BEGIN
  count := 0;
  is_refused := false;
  SELECT
    coalesce(array_agg(j.ctid) FILTER (WHERE p.name IS NULL), '{}'),
    array_agg(j.ctid) FILTER (WHERE p.name IS NOT NULL)
  INTO left_over, met
  FROM {schema}._jobs AS j
  LEFT JOIN {schema}._paused AS p
    ON p.tenant = j.tenant AND p.kind = 'task' AND p.name = j.task AND j.tenant <> ''
  WHERE j.ctid = ANY (_picked);
  IF met IS NULL THEN
    RETURN;
  END IF;
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    is_refused := true;
    RETURN;
  END IF;
  met := met || ARRAY(
    SELECT m.tid FROM (
      SELECT DISTINCT j.tenant, j.task FROM {schema}._jobs AS j WHERE j.ctid = ANY (met)
    ) AS o
    CROSS JOIN LATERAL (
      SELECT k.ctid AS tid FROM {schema}._jobs AS k
      WHERE k.state = 'ready' AND NOT k.suspect AND k.tenant <> '' AND k.tenant = o.tenant
        AND k.task = o.task
      ORDER BY k.priority, k.run_at, k.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
    ) AS m
  );
  WITH parked AS (
    UPDATE {schema}._jobs AS j SET state = 'waiting'
    WHERE j.ctid = ANY (met) AND EXISTS (
      SELECT FROM {schema}._paused AS p
      WHERE p.tenant = j.tenant AND p.kind = 'task' AND p.name = j.task
    ) AND NOT (
      {undelivered j} AND EXISTS (SELECT FROM {schema}._batches AS b WHERE b.ids @> j.id)
    )
    RETURNING j.tenant, j.queue
  )
  SELECT count(*), array_agg(k.tenant) FILTER (WHERE k.queue IS NOT NULL),
    array_agg(k.queue) FILTER (WHERE k.queue IS NOT NULL)
  INTO count, tenants, queues FROM parked AS k;
  PERFORM {schema}._ring(tenants, queues);
END $$;
