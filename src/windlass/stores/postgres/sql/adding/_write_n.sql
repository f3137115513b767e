-- for each n of any new
-- Add jobs, some of them with keys: in the order of their keys, as all who lock rows do, so that two
-- calls at once never deadlock. `_numbers` are ids for those that are new. Their ids, in the order
-- given. It works without nested loops, so that no plan made for few jobs compares many with each
-- other.
--
-- `_write_any` changes the jobs that have these keys. NULL in its answer are those that are left, but
-- locked: jobs that run, that are the head of a queue or hold it, that wait for chains, or whose key
-- comes for the second time.
-- `_write_new` only adds, and fails with unique_violation where a key is there: a third less work,
-- since ON CONFLICT writes each row before it knows.
CREATE OR REPLACE FUNCTION {schema}._write_{n}(
  _requests {schema}._request[], _numbers bigint[], _mode text, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_nestloop = off
AS $$
DECLARE
  ids bigint[];
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.ordinality AS place, _numbers[r.ordinality] AS number, r.due AS run_at,
      -- only any
      r.key IS NULL OR row_number() OVER (PARTITION BY r.key, r.tenant ORDER BY r.ordinality) = 1
        AS is_first,
      -- end
      {schema}._due_state(r.due, r.queue, _at) AS state, c.*
    FROM unnest(_requests) WITH ORDINALITY AS r
    CROSS JOIN LATERAL (SELECT {accepted_of_request}) AS c ({carried})
  ),
  written AS (
    INSERT INTO {schema}._jobs AS j (id, {carried}, run_at, created_at, updated_at, state)
    SELECT g.number, {carried_of_given}, g.run_at, _at, _at, g.state
    FROM given AS g
    -- only any
    WHERE g.is_first
    -- end
    ORDER BY g.key NULLS FIRST, g.tenant, g.place
    -- only any
    ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state <> 'cancelled' DO UPDATE SET
      {replaced_by_excluded},
      {begun_anew},
      revision = j.revision + 1, updated_at = _at,
      run_at = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0 THEN j.run_at
        ELSE excluded.run_at
      END,
      state = CASE
        WHEN _mode = 'preserve_run_at' AND j.state <> 'failed' AND j.attempts = 0
          THEN {schema}._due_state(j.run_at, excluded.queue, _at)
        ELSE excluded.state
      END
    WHERE j.state <> 'running' AND (j.state <> 'ready' OR j.queue IS NULL) AND NOT j.holds
      AND j.blockers_total IS NULL
    -- end
    RETURNING j.id, j.key, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT
    -- only any
    (SELECT array_agg(CASE WHEN g.key IS NULL THEN g.number ELSE w.id END ORDER BY g.place)
     FROM given AS g
     LEFT JOIN written AS w ON w.key = g.key AND w.tenant = g.tenant AND g.is_first),
    -- end
    -- only new
    _numbers,
    -- end
    q.tenants, q.queues, n.is_due, n.is_soon
  INTO ids, tenants, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + {soon}) AS is_soon
    FROM written AS w
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM written AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM {schema}._announce(tenants, queues, is_due, is_soon);
  RETURN ids;
END $$;
