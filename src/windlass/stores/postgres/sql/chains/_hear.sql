-- Blocked jobs, which the caller has locked, learn that chains they wait for have ended, or are gone;
-- `_jobs` and `_chains` are these, pair by pair. A chain that is open after all, or that has failed for a
-- job which goes on waiting, changes nothing. Answers the jobs that fail because of it; their own
-- chains are the caller's to end.
--
-- `_is_new` says that the jobs were added just now: one that waits for nothing then is due when it was
-- asked for, and was never released.
CREATE OR REPLACE FUNCTION {schema}._hear(
  _jobs bigint[], _chains bigint[], _at timestamptz, _is_new boolean
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  failed bigint[];
  owners text[];
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  IF _jobs IS NULL THEN
    RETURN '{}';
  END IF;
  WITH heard AS (
    UPDATE {schema}._blockers AS b SET state = h.state, openings = h.openings
    FROM (
      SELECT p.job, p.chain, c.openings, CASE
        WHEN c.id IS NULL OR c.state = 'completed' OR j.on_blocker_failure = 'run' THEN 'met'
        ELSE 'failed'
      END::{schema}._blocker_state AS state
      FROM unnest(_jobs, _chains) AS p (job, chain)
      JOIN {schema}._jobs AS j ON j.id = p.job AND j.state = 'blocked'
      LEFT JOIN {schema}._chains AS c ON c.id = p.chain
      WHERE c.id IS NULL OR c.state = 'completed'
        OR c.state <> 'open' AND j.on_blocker_failure IS DISTINCT FROM 'wait'
    ) AS h
    WHERE b.chain = h.chain AND b.job = h.job AND b.state = 'open'
    RETURNING b.job, b.place, b.chain, b.state
  ),
  sums AS (
    SELECT h.job,
      (count(DISTINCT h.chain) FILTER (WHERE h.state = 'met'))::integer AS met,
      (array_agg(h.chain ORDER BY h.place) FILTER (WHERE h.state = 'failed'))[1] AS failed
    FROM heard AS h GROUP BY h.job
  ),
  changed AS (
    UPDATE {schema}._jobs AS j SET
      blockers_open = j.blockers_open - s.met,
      run_at = CASE
        WHEN s.failed IS NOT NULL OR j.blockers_open > s.met OR _is_new THEN j.run_at
        ELSE greatest(j.run_at, _at)
      END,
      state = CASE
        WHEN s.failed IS NOT NULL THEN 'failed'::{schema}._job_state
        WHEN j.blockers_open > s.met THEN 'blocked'::{schema}._job_state
        ELSE {schema}._due_state(j.run_at, j.queue, _at)
      END,
      updated_at = CASE
        WHEN s.failed IS NULL AND j.blockers_open > s.met THEN j.updated_at ELSE _at
      END,
      finished_at = CASE WHEN s.failed IS NOT NULL THEN _at END,
      last_error = CASE
        WHEN s.failed IS NOT NULL THEN {schema}._failed_with(s.failed) ELSE j.last_error
      END,
      holds = s.failed IS NOT NULL AND j.is_strict AND j.queue IS NOT NULL
    FROM sums AS s WHERE j.id = s.job
    RETURNING j.id, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT
    coalesce(array_agg(c.id) FILTER (WHERE c.state = 'failed'), '{}'),
    array_agg(c.tenant) FILTER (WHERE c.state = 'failed'),
    array_agg(c.tenant) FILTER (WHERE c.state = 'waiting'),
    array_agg(c.queue) FILTER (WHERE c.state = 'waiting'),
    bool_or(c.state IN ('ready', 'waiting')),
    bool_or(c.state = 'scheduled' AND c.run_at <= _at + {soon})
  INTO failed, owners, tenants, queues, is_due, is_soon FROM changed AS c;
  IF failed <> '{}' THEN
    PERFORM {schema}._ended(failed, owners, NULL);
  END IF;
  PERFORM {schema}._announce(tenants, queues, is_due, is_soon);
  RETURN failed;
END $$;
