-- Add jobs that belong to chains, or wait for some. `_groups` is a JSON array of objects with the names
-- that `_add_jobs` knows; what many have in common is said once, and `payloads` and `places` are lists of
-- what they differ in. `_ids`, `_chains` and `_steps` have at each place what the job there is to have;
-- one without an id is not added. Where `_chains` is NULL they are in none; where `_steps` is, they
-- are the first. A blocker above zero is a chain, and -n is the one at place n of `_refs`.
-- Jobs at the places `_cancelled` are stored so.
--
-- With `_begins` each begins a chain without a key. With `_looks` those that wait look at their
-- chains. Where all chains that they may name begin in this very call nothing can have ended.
CREATE OR REPLACE FUNCTION {schema}._add_links(
  _groups json, _ids bigint[], _chains bigint[], _steps integer[], _refs bigint[],
  _cancelled bigint[], _begins boolean, _looks boolean, _at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  blocked bigint[];
  tenants text[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  IF _groups IS NULL THEN
    RETURN;
  END IF;
  WITH given AS MATERIALIZED (
    SELECT {shared_of_link}, g.blockers, g.due, p.payload, p.place, _ids[p.place] AS id
    FROM (
      SELECT {accepted_of_link}, x.blockers, x.payloads, x.places,
        {schema}._finite(coalesce(
          timestamptz 'epoch' + x.run_at * interval '1 microsecond',
          _at + coalesce(x.delay, 0) * interval '1 microsecond'
        )) AS due
      FROM json_to_recordset(_groups) AS x ({link_typed})
      OFFSET 0
    ) AS g
    CROSS JOIN LATERAL ROWS FROM (json_array_elements(g.payloads), unnest(g.places))
      AS p (payload, place)
    WHERE _ids[p.place] IS NOT NULL
  ),
  named AS (
    INSERT INTO {schema}._blockers (job, place, chain)
    SELECT g.id, r.n - 1, CASE WHEN r.ref > 0 THEN r.ref ELSE _refs[-r.ref] END
    FROM given AS g CROSS JOIN LATERAL unnest(g.blockers) WITH ORDINALITY AS r (ref, n)
  ),
  added AS (
    INSERT INTO {schema}._jobs AS j (
      id, chain, step, blockers_open, blockers_total, finished_at, {carried},
      run_at, created_at, updated_at, state)
    SELECT g.id, _chains[g.place],
      CASE WHEN _chains IS NOT NULL THEN coalesce(_steps[g.place], 0) END,
      n.total, n.total, CASE WHEN g.place = ANY (_cancelled) THEN _at END,
      {carried_of_link}, g.due, _at, _at,
      CASE
        WHEN g.place = ANY (_cancelled) THEN 'cancelled'::{schema}._job_state
        WHEN n.total > 0 THEN 'blocked'::{schema}._job_state
        ELSE {schema}._due_state(g.due, g.queue, _at)
      END
    FROM given AS g
    CROSS JOIN LATERAL (
      SELECT CASE WHEN g.blockers <> '{}' THEN (
        SELECT count(DISTINCT CASE WHEN r.ref > 0 THEN r.ref ELSE _refs[-r.ref] END)
        FROM unnest(g.blockers) AS r (ref)
      ) END AS total
    ) AS n
    RETURNING j.id, j.tenant, j.task, j.payload, j.queue, j.state, j.run_at
  ),
  begun AS (
    INSERT INTO {schema}._chains (id, tenant, task, payload, created_at)
    SELECT a.id, a.tenant, a.task, a.payload, _at FROM added AS a WHERE _begins
  )
  SELECT n.blocked, q.tenants, q.queues, n.is_due, n.is_soon
  INTO blocked, tenants, queues, is_due, is_soon
  FROM (
    SELECT
      array_agg(a.id) FILTER (WHERE a.state = 'blocked') AS blocked,
      bool_or(a.state IN ('ready', 'waiting')) AS is_due,
      bool_or(a.state = 'scheduled' AND a.run_at <= _at + {soon}) AS is_soon
    FROM added AS a
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM added AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM {schema}._announce(tenants, queues, is_due, is_soon);
  IF _looks AND blocked IS NOT NULL THEN
    PERFORM {schema}._stand(blocked, _at);
  END IF;
END $$;
