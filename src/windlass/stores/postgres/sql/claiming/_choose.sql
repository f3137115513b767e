-- The best `_limit` of the ready jobs that a claim has picked and of the heads of queues that it
-- has found; `_bells` are the bells of these heads. If few heads are left over their bells are
-- `kept`, since to look at them again in the next claim costs less than to write them twice, and
-- `last_before` is the last number before all of these. If many are, they become ready.
CREATE OR REPLACE FUNCTION {schema}._choose(
  _picked tid[], _heads tid[], _bells bigint[], _limit integer,
  OUT picked tid[], OUT heads tid[], OUT kept bigint[], OUT last_before bigint
) LANGUAGE plpgsql AS $$
DECLARE
  left_over tid[];
BEGIN
  SELECT
    coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'ready' AND o.place <= _limit), '{}'),
    coalesce(array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place <= _limit), '{}'),
    array_agg(o.tid) FILTER (WHERE o.state = 'waiting' AND o.place > _limit)
  INTO picked, heads, left_over FROM (
    SELECT j.ctid AS tid, j.state,
      row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS place
    FROM {schema}._jobs AS j WHERE j.ctid = ANY (_picked || _heads)
  ) AS o;
  IF cardinality(left_over) > _limit THEN
    PERFORM {schema}._make_ready(left_over);
  ELSIF left_over IS NOT NULL THEN
    SELECT array_agg(h.n), min(h.n) - 1 INTO kept, last_before
    FROM unnest(left_over) AS l (tid)
    JOIN unnest(_heads, _bells) AS h (tid, n) ON h.tid = l.tid;
  END IF;
END $$;
