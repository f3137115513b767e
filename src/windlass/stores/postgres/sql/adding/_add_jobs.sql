-- Many jobs in one call: a JSON array of objects with the names of `windlass.store.records.NewJob`,
-- instants and delays in microseconds. Their ids, in the order given.
CREATE OR REPLACE FUNCTION {schema}._add_jobs(_jobs json, _is_keyed boolean, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  is_due boolean;
  is_soon boolean;
  queues text[];
  requests {schema}._request[];
  mode text;
BEGIN
  IF _is_keyed THEN
    SELECT
      array_agg({request_of_new} ORDER BY x.place),
      CASE WHEN min(d.mode) = max(d.mode) THEN min(d.mode) END
    INTO requests, mode
    FROM ROWS FROM (json_to_recordset(_jobs) AS ({new_typed}))
      WITH ORDINALITY AS x ({new_names}, place)
    CROSS JOIN LATERAL (
      SELECT coalesce(x.key_mode, 'replace') AS mode, {schema}._finite(coalesce(
        timestamptz 'epoch' + x.run_at * interval '1 microsecond',
        _at + coalesce(x.delay, 0) * interval '1 microsecond'
      )) AS due
    ) AS d;
    RETURN {schema}._add_keyed(requests, mode, _at);
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
    RETURNING j.id, j.queue, j.state, j.run_at
  )
  SELECT
    array_agg(a.id ORDER BY a.id),
    ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting'),
    bool_or(a.state <> 'scheduled'),
    bool_or(a.state = 'scheduled' AND a.run_at <= _at + {soon})
  INTO ids, queues, is_due, is_soon FROM added AS a;
  PERFORM {schema}._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;
