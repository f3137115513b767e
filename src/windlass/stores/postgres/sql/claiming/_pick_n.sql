-- for each n of 1 4 16
-- Lock the best claimable jobs of up to {n} tasks: their places in the table, in no order.
-- `_batched` are the jobs in batches. One ordered branch per task, merged: nothing is read that is
-- not returned, but for those and one row per task. A branch starts after the mark of its task:
-- {priority, run_at in microseconds, id}, and before every job where it has none. The number of
-- branches is fixed, so that the plan is made once in a session; tasks beyond the given ones are
-- NULL and cost nothing.
CREATE OR REPLACE FUNCTION {schema}._pick_{n}(
  _tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[],
  _batched int8multirange
) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.tid FROM (
      SELECT u.* FROM (
        -- n times
        (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND NOT j.suspect AND j.task = _tasks[{i}]
           AND (j.priority, j.run_at, j.id) > (
             coalesce(_marks[{i}][1], -2147483649),
             timestamptz 'epoch' + coalesce(_marks[{i}][2], 0) * interval '1 microsecond',
             coalesce(_marks[{i}][3], 0))
           AND NOT ({undelivered j} AND _batched @> j.id)
           AND (j.flags && _forbidden) IS NOT TRUE
         ORDER BY j.priority, j.run_at, j.id)
        UNION ALL
        -- end
        (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
         WHERE j.state = 'ready' AND j.suspect AND j.task = ANY (_tasks)
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
