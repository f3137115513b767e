-- Change those of these jobs that are open (see `_is_open`), and answer them as they are then.
CREATE OR REPLACE FUNCTION {schema}._change_open(
  _ids bigint[], _edit {schema}._edit, _at timestamptz, _bases bigint[], _batched int8multirange
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
  IF _edit.kind = 'complete' THEN
    IF _batched IS NULL THEN
      INSERT INTO {schema}._history ({history})
      SELECT {history_of_changed}
      FROM {schema}._jobs AS k
      WHERE k.id = ANY (_ids) AND {schema}._is_open(k, NULL) AND {schema}._span(k.keep) > 0;
    END IF;
    RETURN QUERY
    DELETE FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _batched)
    RETURNING ({schema}._shown(k, NULL, 'completed', _at)).*;
  ELSIF _edit.kind = 'fail' THEN
    RETURN QUERY
    UPDATE {schema}._jobs AS k SET
      state = 'failed', attempts = coalesce(k.max_attempts, {max_attempts}),
      last_error = _edit.reason,
      fingerprint = {schema}._fingerprint(k.tenant, k.task, _edit.reason),
      finished_at = _at, updated_at = _at,
      holds = k.is_strict AND k.queue IS NOT NULL
    WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _batched)
    RETURNING ({schema}._public(k, NULL)).*;
  ELSE
    RETURN QUERY
    UPDATE {schema}._jobs AS k SET
      run_at = coalesce(_edit.run_at, k.run_at), priority = coalesce(_edit.priority, k.priority),
      attempts = coalesce(_edit.attempts, k.attempts),
      max_attempts = coalesce(_edit.max_attempts, k.max_attempts),
      state = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL OR coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, {max_attempts}) THEN 'failed'
        WHEN k.state = 'blocked' THEN 'blocked'
        ELSE {schema}._due_state(coalesce(_edit.run_at, k.run_at), k.queue, _at)
      END,
      finished_at = CASE
        WHEN k.state = 'failed' AND _edit.attempts IS NULL THEN k.finished_at
        WHEN coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, {max_attempts}) THEN _at
      END,
      holds = CASE
        WHEN (k.state <> 'failed' OR _edit.attempts IS NOT NULL)
          AND coalesce(_edit.attempts, k.attempts)
          >= coalesce(_edit.max_attempts, k.max_attempts, {max_attempts})
          THEN k.is_strict AND k.queue IS NOT NULL
        ELSE k.holds
      END,
      updated_at = _at
    WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _batched)
    RETURNING ({schema}._public(k, NULL)).*;
    PERFORM {schema}._announce(
      array_agg(k.tenant) FILTER (WHERE k.state = 'waiting' AND k.queue IS NOT NULL),
      array_agg(k.queue) FILTER (WHERE k.state = 'waiting' AND k.queue IS NOT NULL),
      bool_or(k.state IN ('ready', 'waiting')),
      bool_or(k.state = 'scheduled' AND k.run_at <= _at + {soon})
    ) FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND {schema}._is_open(k, _batched);
  END IF;
  IF _batched IS NOT NULL THEN
    PERFORM {schema}._look_again(_ids, _bases);
  END IF;
END $$;
