-- Answer the doorbells: in each queue that rang and has no active job, the best waiting one is its
-- head; where jobs hold the queue, the best of those. Jobs whose task is paused are passed by.
-- One caller at a time, behind the latch. `heads` are those that a caller with these tasks
-- and flags may claim, as places in the table, and `bells` the first bell of each; a head may be
-- there twice. Their rows are locked, and the caller must make them running or ready, or leave their
-- bells: so a head that is claimed at once is written once. All other heads become ready here, and
-- `admitted` are their ids.
-- Bells are read before the queues are looked at: a job that leaves after the look has rung a bell
-- that this call has not read. `heard` are those it has read, for the caller to delete, but for the
-- bells of heads it leaves and for `kept`: the bells of queues in which every waiting job is locked
-- by an open transaction. These stay as they are, so that nothing is written for as long as it
-- takes, and `last`, the last bell read, lies behind them. Only bells of `_tenants` (NULL among them
-- stands for all but the default one) after `_after` are looked for.
-- Bells without queues, about jobs and chains, are answered by `_answer_bells`.
-- There are no more looks than it takes to find `_limit` heads, and never more than four.
-- `is_more` says that there is more to answer: another claim is at it, or there were too many.
CREATE OR REPLACE FUNCTION {schema}._admit(
  _tenants text[], _tasks text[], _limit integer, _forbidden text[], _after bigint,
  _at timestamptz, OUT is_more boolean, OUT heads tid[], OUT bells bigint[], OUT admitted bigint[],
  OUT heard bigint[], OUT kept bigint[], OUT last bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  most CONSTANT integer := 1000;
  is_paused boolean;
  numbers bigint[];
  rung text[];
  owners text[];
  found_heads tid[];
  found_bells bigint[];
  found_queues text[];
  found_owners text[];
  served text[] := '{}';
  served_owners text[] := '{}';
  foreign_heads tid[];
  unanswered bigint[];
  unanswered_queues text[];
  unanswered_owners text[];
  linked bigint[];
  answered record;
BEGIN
  is_more := false;
  heads := '{}';
  bells := '{}';
  admitted := '{}';
  heard := '{}';
  kept := '{}';
  last := _after;
  IF NOT pg_try_advisory_xact_lock({latch}) THEN
    is_more := true;
    RETURN;
  END IF;
  is_paused := EXISTS (SELECT FROM {schema}._paused);  -- it stays so: pauses need the latch
  FOR look IN 1 .. 4 LOOP
    SELECT count(*) = most, coalesce(max(f.n), last), array_agg(f.n), array_agg(f.tenant),
      array_agg(f.queue), array_agg(f.n) FILTER (WHERE f.queue IS NULL)
    INTO is_more, last, numbers, owners, rung, linked FROM (
      SELECT r.* FROM unnest(_tenants) AS t (name) CROSS JOIN LATERAL (
        (SELECT b.n, b.tenant, b.queue FROM {schema}._bells AS b
         WHERE b.tenant = '' AND t.name = '' AND b.n > last ORDER BY b.n LIMIT most)
        UNION ALL
        (SELECT b.n, b.tenant, b.queue FROM {schema}._bells AS b
         WHERE b.tenant > '' AND t.name IS NULL AND b.n > last ORDER BY b.n LIMIT most)
        UNION ALL
        (SELECT b.n, b.tenant, b.queue FROM {schema}._bells AS b
         WHERE b.tenant <> '' AND b.tenant = t.name AND b.n > last ORDER BY b.n LIMIT most)
      ) AS r ORDER BY r.n LIMIT most
    ) AS f;
    heard := heard || numbers;
    IF linked IS NOT NULL THEN
      answered := {schema}._answer_bells(linked, _at);
      kept := kept || answered.kept;
      is_more := is_more OR answered.is_more;
      SELECT array_agg(u.n), array_agg(u.tenant), array_agg(u.name) INTO numbers, owners, rung
      FROM unnest(numbers, owners, rung) AS u (n, tenant, name) WHERE u.name IS NOT NULL;
    END IF;
    IF is_paused THEN
      SELECT array_agg(u.n), array_agg(u.tenant), array_agg(u.name) INTO numbers, owners, rung
      FROM unnest(numbers, owners, rung) AS u (n, tenant, name)
      WHERE NOT EXISTS (
        SELECT FROM {schema}._paused AS p
        WHERE p.tenant = u.tenant AND p.kind = 'queue' AND p.name = u.name
      );
    END IF;
    SELECT
      array_agg(h.tid) FILTER (WHERE h.is_ours),
      array_agg(q.n) FILTER (WHERE h.is_ours),
      array_agg(q.tenant) FILTER (WHERE h.is_ours),
      array_agg(q.name) FILTER (WHERE h.is_ours),
      array_agg(h.tid) FILTER (WHERE NOT h.is_ours),
      array_agg(q.n) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL),
      array_agg(q.tenant) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL),
      array_agg(q.name) FILTER (WHERE a.is_busy IS NULL AND h.tid IS NULL)
    INTO found_heads, found_bells, found_owners, found_queues, foreign_heads,
      unanswered, unanswered_owners, unanswered_queues
    FROM (
      -- A queue that has a head by an earlier look gets no other: a better job may have come since.
      SELECT u.tenant, u.name, min(u.n) AS n
      FROM unnest(numbers, owners, rung) AS u (n, tenant, name)
      WHERE (u.tenant, u.name) NOT IN (SELECT s.tenant, s.name
        FROM unnest(served_owners, served) AS s (tenant, name))
      GROUP BY u.tenant, u.name
    ) AS q
    LEFT JOIN LATERAL (
      SELECT true AS is_busy FROM {schema}._jobs AS j
      WHERE j.queue = q.name AND j.tenant = q.tenant AND j.queue IS NOT NULL
        AND j.state IN ('ready', 'running') LIMIT 1
    ) AS a ON true
    LEFT JOIN LATERAL (
      -- Whether any queue is held is asked once, and in this statement: a job that fails and then holds
      -- its queue must be seen either running or holding.
      SELECT true AS is_held FROM {schema}._jobs AS j
      WHERE (SELECT EXISTS (SELECT FROM {schema}._jobs AS i WHERE i.holds)) AND j.holds AND j.queue = q.name AND j.tenant = q.tenant LIMIT 1
    ) AS k ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM {schema}._jobs AS w
      WHERE w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
        AND w.queue IS NOT NULL AND a.is_busy IS NULL AND k.is_held IS NULL
        AND (NOT is_paused OR NOT EXISTS (
          SELECT FROM {schema}._paused AS p
          WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task))
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS f ON true
    LEFT JOIN LATERAL (
      SELECT w.ctid AS tid, w.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
        AND NOT w.suspect AND (w.flags && _forbidden) IS NOT TRUE AS is_ours
      FROM {schema}._jobs AS w
      WHERE w.holds AND w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
        AND a.is_busy IS NULL AND k.is_held
        AND (NOT is_paused OR NOT EXISTS (
          SELECT FROM {schema}._paused AS p
          WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task))
      ORDER BY w.priority, w.run_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS g ON true
    CROSS JOIN LATERAL (
      SELECT coalesce(f.tid, g.tid) AS tid, coalesce(f.is_ours, g.is_ours) AS is_ours
    ) AS h;
    heads := heads || found_heads;
    bells := bells || found_bells;
    served := served || found_queues;
    served_owners := served_owners || found_owners;
    IF foreign_heads IS NOT NULL THEN
      admitted := admitted || {schema}._make_ready(foreign_heads);
    END IF;
    IF unanswered IS NOT NULL THEN
      kept := kept || {schema}._kept_bells(unanswered, unanswered_owners, unanswered_queues);
    END IF;
    EXIT WHEN NOT is_more OR cardinality(heads) >= _limit;
  END LOOP;
END $$;
