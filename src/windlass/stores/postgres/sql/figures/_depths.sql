-- How many jobs are in each state, of a task, a queue or a tenant where one is given, and since when the
-- oldest ready one is due: [[[state, jobs, is an estimate], …], oldest, now].
--
-- Of each state an index is read up to a little more than `_most` jobs, and what matches is counted; where
-- there are more, the number is what the planner expects. The oldest is looked for among those that were
-- counted and, where these were not all, at the heads of 500 tasks and priorities, too.
--
-- Each plan is made for the values at hand: what is not asked for is no condition, and what is asked for
-- may be looked up in an index.
CREATE OR REPLACE FUNCTION {schema}._depths(
  _task text, _queue text, _tenant text, _most integer, _now timestamptz DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  batched int8multirange := coalesce(
    (SELECT range_agg(r.span) FROM {schema}._batches AS b, unnest(b.ids) AS r (span)), '{}');
  room bigint := _most + 1;
  in_batches bigint := coalesce(
    (SELECT sum(upper(r.span) - lower(r.span)) FROM unnest(batched) AS r (span)), 0);
  found record;
  counts json[] := '{}';
  is_cut boolean := false;
  oldest timestamptz;
  head timestamptz;
  plan json;
BEGIN
  FOR found IN
    WITH looked AS (
      SELECT 'blocked' AS state, count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)) AS jobs,
        0 AS batched, count(*) > _most AS is_cut, NULL::timestamptz AS run_at
      FROM (SELECT j.* FROM {schema}._jobs AS j WHERE j.state = 'blocked' LIMIT room) AS k
      UNION ALL
      SELECT 'scheduled', count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)),
        0, count(*) > _most, NULL
      FROM (SELECT j.* FROM {schema}._jobs AS j WHERE j.state = 'scheduled' LIMIT room) AS k
      UNION ALL
      SELECT 'running', count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)),
        0, count(*) > _most, NULL
      FROM (SELECT j.* FROM {schema}._jobs AS j WHERE j.state = 'running' LIMIT room) AS k
      UNION ALL
      SELECT 'failed', count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)),
        0, count(*) > _most, NULL
      FROM (SELECT j.* FROM {schema}._jobs AS j WHERE j.state = 'failed' LIMIT room) AS k
      UNION ALL
      SELECT 'cancelled', count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)),
        0, count(*) > _most, NULL
      FROM (SELECT j.* FROM {schema}._jobs AS j WHERE j.state = 'cancelled' LIMIT room) AS k
      UNION ALL
      SELECT 'completed', count(*) FILTER (WHERE
          (_task IS NULL OR k.task = _task) AND (_queue IS NULL OR k.queue = _queue)
          AND (_tenant IS NULL OR k.tenant = _tenant)),
        0, count(*) > _most, NULL
      FROM (
        SELECT h.* FROM {schema}._history AS h
        WHERE coalesce(_tenant, '') = '' OR h.tenant = _tenant AND h.tenant <> ''
        ORDER BY h.id DESC LIMIT room
      ) AS k
      UNION ALL
      SELECT 'ready', count(*) FILTER (WHERE NOT m.is_batched AND m.matches),
        count(*) FILTER (WHERE m.is_batched AND m.matches),
        count(*) > _most + count(*) FILTER (WHERE m.is_batched),
        min(m.run_at) FILTER (WHERE NOT m.is_batched AND m.matches)
      FROM (
        SELECT k.run_at, batched <> '{}' AND {undelivered k} AND batched @> k.id AS is_batched,
          (_queue IS NULL OR k.queue = _queue) AND (_tenant IS NULL OR k.tenant = _tenant)
          AND (_task IS NULL OR k.task = _task) AS matches
        FROM (
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND coalesce(_tenant, '') = ''
             AND (_task IS NULL OR j.task = _task) AND (_queue IS NULL OR j.queue = _queue)
           LIMIT room + in_batches)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND _tenant IS NULL
             AND (_task IS NULL OR j.task = _task) AND (_queue IS NULL OR j.queue = _queue)
           LIMIT room + in_batches)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = _tenant
             AND (_task IS NULL OR j.task = _task) AND (_queue IS NULL OR j.queue = _queue)
           LIMIT room + in_batches)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
             AND (_queue IS NULL OR j.queue = _queue) LIMIT room)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
             AND (_queue IS NULL OR j.queue = _queue) LIMIT room)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'waiting' AND j.queue IS NOT NULL
             AND (_task IS NULL OR j.task = _task) AND (_queue IS NULL OR j.queue = _queue)
           LIMIT room)
          UNION ALL
          (SELECT j.* FROM {schema}._jobs AS j
           WHERE j.state = 'waiting' AND j.queue IS NULL AND _queue IS NULL
             AND (_task IS NULL OR j.task = _task)
           LIMIT room)
        ) AS k
      ) AS m
    )
    SELECT l.state, l.is_cut, l.run_at,
      l.jobs + CASE WHEN l.state = 'running'
        THEN (SELECT r.batched FROM looked AS r WHERE r.state = 'ready') ELSE 0 END AS jobs
    FROM looked AS l
  LOOP
    oldest := least(oldest, found.run_at);
    IF found.is_cut OR found.jobs > _most THEN
      is_cut := is_cut OR found.state = 'ready';
      EXECUTE 'EXPLAIN (FORMAT JSON) SELECT FROM {schema}.'
        || CASE found.state WHEN 'completed' THEN '_history AS k WHERE true'
           WHEN 'ready' THEN '_jobs AS k WHERE k.state IN (''ready'', ''waiting'')'
           ELSE format('_jobs AS k WHERE k.state = %L', found.state) END
        || CASE WHEN _task IS NULL THEN '' ELSE format(' AND k.task = %L', _task) END
        || CASE WHEN _queue IS NULL THEN '' ELSE format(' AND k.queue = %L', _queue) END
        || CASE WHEN _tenant IS NULL THEN '' ELSE format(' AND k.tenant = %L', _tenant) END
      INTO plan;
      counts := counts || json_build_array(
        found.state, greatest(found.jobs, (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float8::bigint), true);
    ELSE
      counts := counts || json_build_array(found.state, found.jobs, false);
    END IF;
  END LOOP;
  IF is_cut AND _queue IS NULL THEN
    SELECT min(h.run_at) INTO head FROM (
      (WITH RECURSIVE heads (task, priority, run_at) AS (
        (SELECT j.task, j.priority, j.run_at FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND coalesce(_tenant, '') = ''
           AND (_task IS NULL OR j.task = _task)
         ORDER BY j.task, j.priority, j.run_at LIMIT 1)
        UNION ALL
        SELECT n.task, n.priority, n.run_at FROM heads AS s CROSS JOIN LATERAL (
          SELECT j.task, j.priority, j.run_at FROM {schema}._jobs AS j
          WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = ''
            AND (_task IS NULL OR j.task = _task)
            AND (j.task, j.priority) > (s.task, s.priority)
          ORDER BY j.task, j.priority, j.run_at LIMIT 1
        ) AS n
      ) SELECT s.run_at FROM heads AS s LIMIT 500)
      UNION ALL
      (WITH RECURSIVE heads (task, priority, run_at) AS (
        (SELECT j.task, j.priority, j.run_at FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND (_task IS NULL OR j.task = _task)
           AND (_tenant IS NULL AND j.tenant > ''
             OR _tenant IS NOT NULL AND j.tenant <> '' AND j.tenant = _tenant)
         ORDER BY j.task, j.priority, j.run_at LIMIT 1)
        UNION ALL
        SELECT n.task, n.priority, n.run_at FROM heads AS s CROSS JOIN LATERAL (
          SELECT j.task, j.priority, j.run_at FROM {schema}._jobs AS j
          WHERE j.state = 'ready' AND NOT j.suspect AND (_task IS NULL OR j.task = _task)
            AND (_tenant IS NULL AND j.tenant > ''
              OR _tenant IS NOT NULL AND j.tenant <> '' AND j.tenant = _tenant)
            AND (j.task, j.priority) > (s.task, s.priority)
          ORDER BY j.task, j.priority, j.run_at LIMIT 1
        ) AS n
      ) SELECT s.run_at FROM heads AS s LIMIT 500)
    ) AS h;
    oldest := least(oldest, head);
  END IF;
  RETURN json_build_array(to_json(counts), {schema}._micros(oldest), {schema}._micros(at));
END $$;
