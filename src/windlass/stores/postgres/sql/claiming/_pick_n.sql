-- for each n of 1 4 16
-- for each kind of default every named
-- Lock the best claimable jobs of up to {n} branches: their places in the table, in no order. `_batched`
-- are the jobs in batches. A branch is a task: of the default tenant alone (kind `default`), of all
-- tenants (`every`), or of the tenant at its place in `_tenants` (`named`). Where `_tenants` has another
-- name than '' at a place, nothing of the default tenant is taken there.
--
-- One ordered scan per branch and index, merged: nothing is read that is not returned, but for jobs in
-- batches and one row of each. A branch starts after its mark: {priority, run_at in
-- microseconds, id}, and before every job where it has none. The number of branches is fixed, so that
-- the plan is made once in a session; tasks beyond the given ones are NULL and cost nothing.
CREATE OR REPLACE FUNCTION {schema}._pick_{kind}_{n}(
  _tasks text[], _tenants text[], _limit integer, _suspects integer, _forbidden text[],
  _marks bigint[], _batched int8multirange
) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        -- n times
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _tasks[{i}]
           AND coalesce(_tenants[{i}], '') = ''
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[{i}][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[{i}][2], 0) * interval '1 microsecond',
             coalesce(_marks[{i}][3], 0))
           AND NOT ({undelivered j} AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        -- of every
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _tasks[{i}]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[{i}][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[{i}][2], 0) * interval '1 microsecond',
             coalesce(_marks[{i}][3], 0))
           AND NOT ({undelivered j} AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        -- end of
        -- of named
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> ''
           AND j.tenant = _tenants[{i}] AND j.task = _tasks[{i}]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[{i}][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[{i}][2], 0) * interval '1 microsecond',
             coalesce(_marks[{i}][3], 0))
           AND NOT ({undelivered j} AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        -- end of
        -- end
        -- of every
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND j.task = ANY (_tasks)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
        UNION ALL
        -- end of
        -- of named
        (SELECT s.* FROM (
           SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name) WHERE t.name <> ''
         ) AS t CROSS JOIN LATERAL (
           SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
             AND (j.tenant, j.task) IN (
               SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT _suspects
         ) AS s ORDER BY s.priority, s.run_at, s.id LIMIT _suspects)
        UNION ALL
        -- end of
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE (_tenants = '{}' OR '' = ANY (_tenants))
           AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
             SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
             WHERE coalesce(b.tenant, '') = '')
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id LIMIT _suspects)
      ) AS u ORDER BY u.priority, u.run_at, u.id
    ) AS c
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid FROM {schema}._jobs AS r
      WHERE r.ctid = c.tid AND r.state = 'ready' AND NOT ({undelivered r} AND _batched @> r.id)
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
    LIMIT _limit
  );
END $$;
