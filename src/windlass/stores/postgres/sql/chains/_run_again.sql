-- These jobs, which the caller has locked and which are over, run again now, with all their attempts.
CREATE OR REPLACE FUNCTION {schema}._run_again(_jobs bigint[], _at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}._jobs AS k SET
    attempts = 0, resets = 0, suspect = false, finished_at = NULL, run_at = _at, updated_at = _at,
    state = {schema}._due_state(_at, k.queue, _at)
  WHERE k.id = ANY (_jobs);
  PERFORM {schema}._announce(
    array_agg(k.tenant) FILTER (WHERE k.queue IS NOT NULL),
    array_agg(k.queue) FILTER (WHERE k.queue IS NOT NULL), true, false)
  FROM {schema}._jobs AS k WHERE k.id = ANY (_jobs);
END $$;
