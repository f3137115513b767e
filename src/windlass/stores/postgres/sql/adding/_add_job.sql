-- Add one job, or change the one that has its key; its id. A request is never lost: when the key
-- appears or goes in the meantime it looks again.
CREATE OR REPLACE FUNCTION {schema}._add_job(
  r {schema}._request, _at timestamptz, _id bigint DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
  old {schema}._jobs;
  new_id bigint;
  new_state {schema}._job_state;
BEGIN
  IF r.mode NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'Job key mode must be replace, preserve_run_at or unsafe_dedupe, not %', r.mode
      USING ERRCODE = 'GWBKM';
  END IF;
  r.task := {schema}._accepted(
    r.task, r.queue, r.key, r.max_attempts, r.flags, r.keep, r.tenant);
  r.payload := {schema}._sound(r.payload);
  LOOP
    IF r.key IS NOT NULL THEN
      SELECT j.* INTO old FROM {schema}._jobs AS j
      WHERE j.key = r.key AND j.tenant = r.tenant AND j.state <> 'cancelled' FOR NO KEY UPDATE;
      IF FOUND AND r.mode = 'unsafe_dedupe' THEN
        UPDATE {schema}._jobs AS j SET revision = j.revision + 1, updated_at = _at
        WHERE j.id = old.id;
        RETURN old.id;
      ELSIF FOUND AND old.state = 'running' THEN
        -- It may complete, but not run again; the new request gets a row of its own.
        UPDATE {schema}._jobs AS j SET key = NULL, superseded = true, updated_at = _at
        WHERE j.id = old.id;
      ELSIF FOUND THEN
        IF r.mode = 'preserve_run_at' AND old.state <> 'failed' AND old.attempts = 0 THEN
          r.due := old.run_at;
        END IF;
        new_id := old.id;
        new_state := {schema}._due_state(r.due, r.queue, _at);
        UPDATE {schema}._jobs AS j SET
          {replaced_by_request},
          {begun_anew},
          run_at = r.due, revision = j.revision + 1, updated_at = _at, state = new_state
        WHERE j.id = new_id;
        IF old.blockers_total IS NOT NULL THEN
          PERFORM {schema}._drop_blockers(ARRAY[old.id]);
        END IF;
        IF old.queue IS NOT NULL AND (old.state = 'ready' OR old.holds) THEN
          PERFORM {schema}._ring(ARRAY[old.tenant], ARRAY[old.queue]);
        END IF;
        EXIT;
      END IF;
    END IF;
    new_state := {schema}._due_state(r.due, r.queue, _at);
    INSERT INTO {schema}._jobs AS j (id, {carried}, run_at, created_at, updated_at, state)
    VALUES (
      coalesce(_id, nextval({sequence})), {carried_of_request}, r.due, _at, _at, new_state
    )
    ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state <> 'cancelled' DO NOTHING
    RETURNING j.id INTO new_id;
    EXIT WHEN FOUND;
  END LOOP;
  PERFORM {schema}._announce(
    ARRAY[r.tenant], CASE WHEN new_state = 'waiting' THEN ARRAY[r.queue] END,
    new_state <> 'scheduled', new_state = 'scheduled' AND r.due <= _at + {soon});
  RETURN new_id;
END $$;
