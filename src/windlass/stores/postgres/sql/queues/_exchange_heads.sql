-- Queues of these tenants whose ready head this worker may not run, while a job behind it is one that
-- it may: put that job in the head's place, unless a job holds the queue. Looks at 200 queues per task,
-- fewer where there are more than ten tasks, after `_after`, a tenant and a queue, by name; says where
-- to go on.
CREATE OR REPLACE FUNCTION {schema}._exchange_heads(
  _tenants text[], _tasks text[], _forbidden text[], _after text[],
  OUT heads bigint[], OUT candidates bigint[], OUT next_after text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  most integer := greatest(1, least(200, 2000 / greatest(cardinality(_tasks), 1)));
  is_every boolean := array_position(_tenants, NULL) IS NOT NULL;
  swap record;
BEGIN
  heads := '{}';
  candidates := '{}';
  next_after := '{}';
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    next_after := _after;
    RETURN;
  END IF;
  FOR swap IN
    WITH RECURSIVE step (task, owner, tenant, queue, n) AS (
      SELECT t.name, o.name, f.tenant, f.queue, 1
      FROM unnest(_tasks) AS t (name)
      CROSS JOIN unnest(CASE WHEN is_every THEN '{NULL}' ELSE _tenants END) AS o (name)
      LEFT JOIN LATERAL {schema}._next_waiting(
        o.name, t.name, coalesce(_after[1], ''), coalesce(_after[2], '')) AS f ON true
      UNION ALL
      SELECT s.task, s.owner, f.tenant, f.queue, s.n + 1
      FROM step AS s
      LEFT JOIN LATERAL {schema}._next_waiting(s.owner, s.task, s.tenant, s.queue) AS f ON true
      WHERE s.queue IS NOT NULL AND s.n < most
    )
    SELECT DISTINCT ON (s.tenant, s.queue)
      s.tenant, s.queue, h.id AS head, c.id AS candidate,
      (SELECT ARRAY[x.tenant, x.queue] FROM step AS x WHERE x.n = most AND x.queue IS NOT NULL
       ORDER BY x.tenant, x.queue LIMIT 1) AS go_on
    FROM step AS s
    LEFT JOIN LATERAL (
      SELECT h.* FROM {schema}._jobs AS h
      WHERE h.queue = s.queue AND h.tenant = s.tenant AND h.queue IS NOT NULL
        AND h.state IN ('ready', 'running')
    ) AS h ON h.state = 'ready' AND (
      (h.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))) IS NOT TRUE
      OR h.flags && _forbidden
      OR EXISTS (SELECT FROM {schema}._paused AS p
                 WHERE p.tenant = h.tenant AND p.kind = 'task' AND p.name = h.task)
    )
    LEFT JOIN LATERAL (
      SELECT w.id, w.priority, w.run_at FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.queue IS NOT NULL AND w.task = s.task
        AND w.tenant = s.tenant AND w.queue = s.queue AND h.id IS NOT NULL
        AND (w.flags && _forbidden) IS NOT TRUE
        AND NOT EXISTS (SELECT FROM {schema}._paused AS p
                        WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
        AND NOT EXISTS (SELECT FROM {schema}._jobs AS k
                        WHERE k.holds AND k.queue = w.queue AND k.tenant = w.tenant)
      ORDER BY w.priority, w.run_at, w.id LIMIT 1
    ) AS c ON true
    WHERE s.queue IS NOT NULL
    ORDER BY s.tenant, s.queue, c.priority NULLS LAST, c.run_at, c.id
  LOOP
    next_after := coalesce(swap.go_on, '{}');
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
