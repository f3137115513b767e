-- Add many jobs, all or none, in the order given. Two with one key: the last wins.
CREATE OR REPLACE FUNCTION {schema}.add_jobs(
  specs {schema}.job_spec[], job_key_preserve_run_at boolean DEFAULT false
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  at timestamptz := clock_timestamp();
  most bigint := {schema}._largest();
  mode text := CASE WHEN job_key_preserve_run_at THEN 'preserve_run_at' ELSE 'replace' END;
  own text := {schema}._own_tenant();
  own_strict boolean := {schema}._own_strict();
  ids bigint[];
BEGIN
  IF EXISTS (SELECT FROM unnest(specs) AS s WHERE s.job_key IS NOT NULL) THEN
    ids := {schema}._add_keyed(
      ARRAY(
        SELECT {request_of_spec}
        FROM unnest(specs) AS u
        CROSS JOIN LATERAL (
          SELECT {schema}._unreserved(u.identifier) AS identifier,
            {schema}._fitting(u.payload, most) AS payload, u.queue_name,
            u.max_attempts, u.job_key, coalesce(u.priority, 0) AS priority,
            CASE WHEN u.flags IS NOT NULL THEN {schema}._plain(u.flags) END AS flags,
            own AS tenant, own_strict AS is_strict
        ) AS s
        CROSS JOIN LATERAL (SELECT coalesce({schema}._finite(u.run_at), now()) AS due, mode) AS d
      ),
      mode, at);
    RETURN QUERY
    SELECT ({schema}._public(j, NULL)).* FROM unnest(ids) WITH ORDINALITY AS x (id, place)
    JOIN {schema}._jobs AS j ON j.id = x.id
    ORDER BY x.place;
    RETURN;
  END IF;
  -- Nothing here changes the order in which they are given: a sort of so many would go to the disk.
  RETURN QUERY
  WITH given AS MATERIALIZED (  -- what is a column is no call below, however often it is used
    SELECT {schema}._unreserved(s.identifier) AS identifier,
      {schema}._fitting(s.payload, most) AS payload, s.queue_name,
      coalesce({schema}._finite(s.run_at), now()) AS due, s.max_attempts,
      coalesce(s.priority, 0) AS priority,
      CASE WHEN s.flags IS NOT NULL THEN {schema}._plain(s.flags) END AS flags,
      own AS tenant, own_strict AS is_strict
    FROM unnest(specs) AS s
  ),
  added AS (
    INSERT INTO {schema}._jobs AS j ({carried}, run_at, created_at, updated_at, state)
    SELECT {accepted_of_spec}, g.due, at, at, {schema}._due_state(g.due, g.queue_name, at)
    FROM given AS g
    RETURNING j.*
  )
  SELECT ({schema}._public(a, NULL)).* FROM added AS a
  WHERE (
    SELECT {schema}._announce(
      array_fill(own, ARRAY[cardinality(q.names)]), q.names,
      bool_or(x.state <> 'scheduled'),
      bool_or(x.state = 'scheduled' AND x.run_at <= at + {soon})
    ) FROM added AS x CROSS JOIN (
      SELECT ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting') AS names
    ) AS q GROUP BY q.names
  );
END $$;
