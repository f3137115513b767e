-- Put jobs back whose worker is gone: the first time makes a job suspect, each further time
-- counts as a reset. The caller has locked the rows.
CREATE OR REPLACE FUNCTION {schema}._take_back(_ids bigint[], _max_resets integer, _at timestamptz)
RETURNS SETOF {schema}._jobs LANGUAGE plpgsql AS $$
DECLARE
  j {schema}._jobs;
BEGIN
  FOR j IN
    UPDATE {schema}._jobs AS k SET
      resets = k.resets + k.suspect::integer,
      attempts = k.attempts - 1,
      suspect = true,
      state = CASE
        WHEN k.superseded THEN 'failed'
        WHEN k.cancel_requested THEN 'cancelled'
        WHEN k.suspect AND k.resets + 1 >= _max_resets THEN 'failed'
        WHEN k.queue IS NULL THEN 'ready'
        ELSE 'waiting'
      END::{schema}._job_state,
      last_error = CASE
        WHEN k.superseded THEN {superseded}
        WHEN k.suspect AND k.resets + 1 >= _max_resets AND NOT k.cancel_requested
          THEN replace({killed}, '{0}', (k.resets + 1)::text)
        ELSE k.last_error
      END,
      fingerprint = CASE
        WHEN k.superseded THEN {schema}._fingerprint(k.tenant, k.task, {superseded})
        WHEN k.suspect AND k.resets + 1 >= _max_resets AND NOT k.cancel_requested
          THEN {schema}._fingerprint(
            k.tenant, k.task, replace({killed}, '{0}', (k.resets + 1)::text))
        ELSE k.fingerprint
      END,
      finished_at = CASE
        WHEN k.superseded OR k.cancel_requested OR (k.suspect AND k.resets + 1 >= _max_resets)
          THEN _at
      END,
      holds = CASE
        WHEN k.superseded OR k.cancel_requested THEN false
        WHEN k.suspect AND k.resets + 1 >= _max_resets THEN k.is_strict AND k.queue IS NOT NULL
        ELSE k.holds
      END,
      superseded = false, cancel_requested = false, updated_at = _at,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = ANY (_ids)
    RETURNING k.*
  LOOP
    IF j.finished_at IS NOT NULL THEN
      IF {told j} THEN
        PERFORM {schema}._post_ends(ARRAY[j], NULL, NULL, _at);
      END IF;
      PERFORM {schema}._ended(
        ARRAY[j.id], ARRAY[j.tenant], CASE WHEN j.queue IS NOT NULL THEN ARRAY[j.queue] END,
        CASE WHEN j.chain IS NOT NULL THEN ARRAY[
          {schema}._end_of_chain(j, j.state, NULL, NULL)] END,
        _at);
    ELSIF j.queue IS NOT NULL THEN
      PERFORM {schema}._ring(ARRAY[j.tenant], ARRAY[j.queue]);
    END IF;
    PERFORM pg_notify({channel}, '');
    RETURN NEXT j;
  END LOOP;
END $$;
