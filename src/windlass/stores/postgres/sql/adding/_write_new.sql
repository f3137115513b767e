-- Add jobs whose keys no job has; see `_write_any`.
CREATE OR REPLACE FUNCTION {schema}._write_new(
  _requests {schema}._request[], _numbers bigint[], _mode text, _at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_nestloop = off
AS $$
DECLARE
  ids bigint[];
  queues text[];
  is_due boolean;
  is_soon boolean;
BEGIN
  WITH given AS (
    SELECT
      r.ordinality AS place, _numbers[r.ordinality] AS number, true AS is_first, r.due AS run_at,
      {schema}._due_state(r.due, r.queue, _at) AS state, c.*
    FROM unnest(_requests) WITH ORDINALITY AS r
    CROSS JOIN LATERAL (SELECT {accepted_of_request}) AS c ({carried})
  ),
  written AS (
    INSERT INTO {schema}._jobs AS j (id, {carried}, run_at, created_at, updated_at, state)
    SELECT g.number, {carried_of_given}, g.run_at, _at, _at, g.state
    FROM given AS g WHERE g.is_first
    ORDER BY g.key NULLS FIRST, g.place
    RETURNING j.queue, j.state, j.run_at
  )
  SELECT
    _numbers,
    ARRAY(SELECT DISTINCT w.queue FROM written AS w WHERE w.state = 'waiting'),
    n.is_due, n.is_soon
  INTO ids, queues, is_due, is_soon FROM (
    SELECT
      bool_or(w.state <> 'scheduled') AS is_due,
      bool_or(w.state = 'scheduled' AND w.run_at <= _at + {soon}) AS is_soon
    FROM written AS w
  ) AS n;
  PERFORM {schema}._announce(queues, is_due, is_soon);
  RETURN ids;
END $$;
