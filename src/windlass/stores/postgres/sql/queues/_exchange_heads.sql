-- Queues whose ready head this worker may not run, while a job behind it is one that it may: put
-- that job in the head's place. Looks at 200 queues per task, fewer where there are more than ten
-- tasks, after `_after` by name; says where to go on.
CREATE OR REPLACE FUNCTION {schema}._exchange_heads(
  _tasks text[], _forbidden text[], _after text,
  OUT heads bigint[], OUT candidates bigint[], OUT next_after text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  most integer := greatest(1, least(200, 2000 / greatest(cardinality(_tasks), 1)));
  swap record;
BEGIN
  heads := '{}';
  candidates := '{}';
  next_after := '';
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    next_after := _after;
    RETURN;
  END IF;
  FOR swap IN
    WITH RECURSIVE step (task, queue, n) AS (
      SELECT t.name, (
        SELECT w.queue FROM {schema}._jobs AS w
        WHERE w.state = 'waiting' AND w.task = t.name AND w.queue > _after
        ORDER BY w.queue LIMIT 1
      ), 1
      FROM unnest(_tasks) AS t (name)
      UNION ALL
      SELECT s.task, (
        SELECT w.queue FROM {schema}._jobs AS w
        WHERE w.state = 'waiting' AND w.task = s.task AND w.queue > s.queue
        ORDER BY w.queue LIMIT 1
      ), s.n + 1
      FROM step AS s WHERE s.queue IS NOT NULL AND s.n < most
    )
    SELECT DISTINCT ON (s.queue)
      s.queue, h.id AS head, c.id AS candidate,
      (SELECT min(x.queue) FROM step AS x WHERE x.n = most) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM {schema}._jobs AS h
      WHERE h.queue = s.queue AND h.queue IS NOT NULL AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      (h.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS NOT TRUE OR h.flags && _forbidden
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.task = s.task AND w.queue = s.queue AND h.id IS NOT NULL
        AND (w.flags && _forbidden) IS NOT TRUE
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '');
    CONTINUE WHEN swap.candidate IS NULL;
    PERFORM FROM {schema}._jobs AS j
    WHERE j.id = swap.candidate AND j.state = 'waiting' AND j.queue = swap.queue
    FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE {schema}._jobs AS j SET state = 'waiting' WHERE j.id = (
      SELECT k.id FROM {schema}._jobs AS k
      WHERE k.id = swap.head AND k.state = 'ready' AND k.queue = swap.queue
      FOR NO KEY UPDATE SKIP LOCKED
    );
    CONTINUE WHEN NOT FOUND;
    UPDATE {schema}._jobs AS j SET state = 'ready' WHERE j.id = swap.candidate;
    heads := heads || swap.head;
    candidates := candidates || swap.candidate;
  END LOOP;
END $$;
