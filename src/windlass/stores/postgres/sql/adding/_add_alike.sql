-- Many jobs that differ in nothing but their payloads: one JSON object with the names that
-- `_add_jobs` knows, and `payloads` in place of `payload`. Their ids, in the order given.
CREATE OR REPLACE FUNCTION {schema}._add_alike(_jobs json, _at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  x record;
  due timestamptz;
  new_state {schema}._job_state;
BEGIN
  SELECT y.* INTO x FROM json_to_record(_jobs) AS y ({alike_typed});
  x.tenant := coalesce(x.tenant, '');
  x.is_strict := coalesce(x.is_strict, false);
  x.task := {schema}._accepted(
    x.task, x.queue, NULL, x.max_attempts, x.flags, x.keep, x.tenant);
  due := {schema}._finite(coalesce(
    timestamptz 'epoch' + x.run_at * interval '1 microsecond',
    _at + coalesce(x.delay, 0) * interval '1 microsecond'
  ));
  new_state := {schema}._due_state(due, x.queue, _at);
  WITH added AS (
    INSERT INTO {schema}._jobs AS j ({carried}, run_at, created_at, updated_at, state)
    SELECT {carried_of_alike}, due, _at, _at, new_state
    FROM json_array_elements(x.payloads) AS p
    RETURNING j.id
  )
  SELECT array_agg(a.id) INTO ids FROM added AS a;
  PERFORM {schema}._announce(
    ARRAY[x.tenant], CASE WHEN new_state = 'waiting' THEN ARRAY[x.queue] END,
    new_state <> 'scheduled', new_state = 'scheduled' AND due <= _at + {soon});
  RETURN ids;
END $$;
