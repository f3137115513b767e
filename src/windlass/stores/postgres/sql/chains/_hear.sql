-- Blocked jobs, which the caller has locked, learn that chains they wait for have ended, or are gone;
-- `_jobs` and `_chains` are these, pair by pair. A chain that is open after all, or that has failed for a
-- job which goes on waiting, changes nothing. Answers the jobs that fail because of it; their own
-- chains are the caller's to end.
--
-- Where all of these chains are known to have completed, or to be gone, `_is_bad` is false, and they are
-- not looked at. `_is_new` says that the jobs were added just now: one that waits for nothing then is due
-- when it was asked for, and was never released.
CREATE OR REPLACE FUNCTION {schema}._hear(
  _jobs bigint[], _chains bigint[], _is_bad boolean, _is_new boolean, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  heard bigint[];
  met integer[];
  blamed bigint[];
  failed bigint[];
  told bigint[];
  owners text[];
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  IF _jobs IS NULL THEN
    RETURN '{}';
  END IF;
  IF _is_bad THEN
    WITH turned AS (
      UPDATE {schema}._blockers AS b SET state = h.state, openings = h.openings
      FROM (
        SELECT p.job, p.chain, c.openings, CASE
          WHEN c.id IS NULL OR c.state = 'completed' OR j.on_blocker_failure = 'run' THEN 'met'
          ELSE 'failed'
        END::{schema}._blocker_state AS state
        FROM unnest(_jobs, _chains) AS p (job, chain)
        JOIN {schema}._jobs AS j ON j.id BETWEEN p.job AND p.job AND {blocked j}
        LEFT JOIN {schema}._chains AS c ON c.id BETWEEN p.chain AND p.chain
        WHERE c.id IS NULL OR c.state = 'completed'
          OR c.state <> 'open' AND j.on_blocker_failure IS DISTINCT FROM 'wait'
      ) AS h
      WHERE (b.chain, b.job) BETWEEN (h.chain, h.job) AND (h.chain, h.job)
        AND b.state = 'open'
      RETURNING b.job, b.place, b.chain, b.state
    )
    SELECT array_agg(s.job), array_agg(s.met), array_agg(s.blamed) INTO heard, met, blamed FROM (
      SELECT t.job, count(DISTINCT t.chain) FILTER (WHERE t.state = 'met') AS met,
        (array_agg(t.chain ORDER BY t.place) FILTER (WHERE t.state = 'failed'))[1] AS blamed
      FROM turned AS t GROUP BY t.job
    ) AS s;
  ELSE
    WITH turned AS (
      UPDATE {schema}._blockers AS b SET state = 'met'
      FROM unnest(_jobs, _chains) AS p (job, chain)
      WHERE (b.chain, b.job) BETWEEN (p.chain, p.job) AND (p.chain, p.job)
        AND b.state = 'open'
      RETURNING b.job, b.chain
    )
    SELECT array_agg(s.job), array_agg(s.met) INTO heard, met FROM (
      SELECT t.job, count(DISTINCT t.chain) AS met FROM turned AS t GROUP BY t.job
    ) AS s;
  END IF;
  WITH changed AS (
    UPDATE {schema}._jobs AS j SET
      blockers_open = j.blockers_open - s.met,
      run_at = CASE
        WHEN s.blamed IS NOT NULL OR j.blockers_open > s.met OR _is_new THEN j.run_at
        ELSE greatest(j.run_at, _at)
      END,
      state = CASE
        WHEN s.blamed IS NOT NULL THEN 'failed'::{schema}._job_state
        WHEN j.blockers_open > s.met THEN 'blocked'::{schema}._job_state
        ELSE {schema}._due_state(j.run_at, j.queue, _at)
      END,
      updated_at = CASE
        WHEN s.blamed IS NULL AND j.blockers_open > s.met THEN j.updated_at ELSE _at
      END,
      finished_at = CASE WHEN s.blamed IS NOT NULL THEN _at END,
      last_error = CASE
        WHEN s.blamed IS NOT NULL THEN {schema}._failed_with(s.blamed) ELSE j.last_error
      END,
      fingerprint = CASE
        WHEN s.blamed IS NOT NULL
          THEN {schema}._fingerprint(j.tenant, j.task, {schema}._failed_with(s.blamed))
        ELSE j.fingerprint
      END,
      holds = s.blamed IS NOT NULL AND j.is_strict AND j.queue IS NOT NULL
    FROM unnest(heard, met, blamed) AS s (job, met, blamed)
    WHERE j.id BETWEEN s.job AND s.job AND {blocked j}
    RETURNING j.id, j.tenant, j.queue, j.state, j.run_at, {told j} AS is_told
  )
  SELECT
    coalesce(array_agg(c.id) FILTER (WHERE c.state = 'failed'), '{}'),
    array_agg(c.id) FILTER (WHERE c.state = 'failed' AND c.is_told),
    array_agg(c.tenant) FILTER (WHERE c.state = 'failed'),
    array_agg(c.tenant) FILTER (WHERE c.state = 'waiting'),
    array_agg(c.queue) FILTER (WHERE c.state = 'waiting'),
    bool_or(c.state IN ('ready', 'waiting')),
    bool_or(c.state = 'scheduled' AND c.run_at <= _at + {soon})
  INTO failed, told, owners, tenants, queues, is_due, is_soon FROM changed AS c;
  IF failed <> '{}' THEN
    PERFORM {schema}._ended(failed, owners, NULL);
    IF told IS NOT NULL THEN
      PERFORM {schema}._post_ends_of(told, _at);
    END IF;
  END IF;
  PERFORM {schema}._announce(tenants, queues, is_due, is_soon);
  RETURN failed;
END $$;
