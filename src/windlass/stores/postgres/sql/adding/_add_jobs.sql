-- Many jobs in one call: a JSON array of objects with the names of `windlass.store.records.NewJob`,
-- instants and delays in microseconds. Their ids, in the order given.
CREATE OR REPLACE FUNCTION {schema}._add_jobs(_jobs json, _is_keyed boolean, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  is_due boolean;
  is_soon boolean;
  tenants text[];
  queues text[];
  requests {schema}._request[];
  mode text;
  is_blocked boolean;
BEGIN
  IF _is_keyed THEN
    SELECT
      array_agg({request_of_new} ORDER BY x.place),
      CASE WHEN min(d.mode) = max(d.mode) THEN min(d.mode) END,
      bool_or(x.blockers <> '{}')
    INTO requests, mode, is_blocked
    FROM ROWS FROM (json_to_recordset(_jobs) AS ({new_typed}))
      WITH ORDINALITY AS x ({new_names}, place)
    CROSS JOIN LATERAL (
      SELECT coalesce(x.key_mode, 'replace') AS mode, {schema}._finite(coalesce(
        timestamptz 'epoch' + x.run_at * interval '1 microsecond',
        _at + coalesce(x.delay, 0) * interval '1 microsecond'
      )) AS due
    ) AS d;
    IF is_blocked THEN
      PERFORM {schema}._require_chains(_jobs);
    END IF;
    ids := {schema}._add_keyed(requests, mode, _at);
    IF is_blocked THEN
      PERFORM {schema}._block(_jobs, ids, _at);
    END IF;
    RETURN ids;
  END IF;
  WITH added AS (
    INSERT INTO {schema}._jobs AS j ({carried}, run_at, created_at, updated_at, state)
    SELECT {accepted_of_new}, d.due, _at, _at, {schema}._due_state(d.due, x.queue, _at)
    FROM ROWS FROM (json_to_recordset(_jobs) AS ({new_typed}))
      WITH ORDINALITY AS x ({new_names}, place)
    CROSS JOIN LATERAL (
      SELECT {schema}._finite(coalesce(
        timestamptz 'epoch' + x.run_at * interval '1 microsecond',
        _at + coalesce(x.delay, 0) * interval '1 microsecond'
      )) AS due
    ) AS d
    ORDER BY x.place
    RETURNING j.id, j.tenant, j.queue, j.state, j.run_at
  )
  SELECT n.ids, q.tenants, q.queues, n.is_due, n.is_soon
  INTO ids, tenants, queues, is_due, is_soon
  FROM (
    SELECT
      array_agg(a.id ORDER BY a.id) AS ids,
      bool_or(a.state <> 'scheduled') AS is_due,
      bool_or(a.state = 'scheduled' AND a.run_at <= _at + {soon}) AS is_soon
    FROM added AS a
  ) AS n
  CROSS JOIN (
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.queue) AS queues
    FROM (SELECT DISTINCT w.tenant, w.queue FROM added AS w WHERE w.state = 'waiting') AS d
  ) AS q;
  PERFORM {schema}._announce(tenants, queues, is_due, is_soon);
  RETURN ids;
END $$;
