-- End one delivery whose row the caller has locked. The state the job is in then.
CREATE OR REPLACE FUNCTION {schema}._end(j {schema}._jobs, o {schema}._outcome, at timestamptz)
RETURNS {schema}._job_state LANGUAGE plpgsql AS $$
DECLARE
  new_state {schema}._job_state;
  due timestamptz := j.run_at;
  kept float8 := coalesce({schema}._span(j.keep), o.keep);
BEGIN
  IF o.kind = 'complete' THEN
    DELETE FROM {schema}._jobs AS k WHERE k.id = j.id;
    IF kept > 0 THEN
      j.keep := kept;
      PERFORM {schema}._file(j, o.output, at);
    ELSIF j.blockers_total IS NOT NULL THEN
      PERFORM {schema}._drop_blockers(ARRAY[j.id]);
    END IF;
    new_state := 'completed';
  ELSE
    IF o.kind = 'cancel' THEN
      new_state := 'cancelled';
    ELSIF o.kind = 'release' THEN
      j.attempts := j.attempts - 1;
      IF j.superseded THEN
        new_state := 'failed';
        j.last_error := {superseded};
        j.fingerprint := {schema}._fingerprint(j.tenant, j.task, j.last_error);
      ELSIF j.cancel_requested THEN
        new_state := 'cancelled';
      ELSE
        new_state := {schema}._due_state(at, j.queue, at);
      END IF;
    ELSE
      j.last_error := o.error;
      j.fingerprint := coalesce(o.fingerprint, {schema}._fingerprint(j.tenant, j.task, o.error));
      j.errors := {schema}._appended(
        j.errors,
        json_build_array(
          j.attempts, {schema}._micros(at),
          (SELECT w.name FROM {schema}._workers AS w WHERE w.id = j.worker),
          left(o.error, {max_error_text})),
        {max_errors});
      j.suspect := false;
      j.payload := coalesce(o.payload, j.payload);
      IF o.final OR j.superseded OR j.attempts >= coalesce(j.max_attempts, o.max_attempts) THEN
        new_state := 'failed';
      ELSIF j.cancel_requested THEN
        new_state := 'cancelled';
      ELSE
        due := least({last_instant}, coalesce(
          timestamptz 'epoch' + o.run_at * interval '1 microsecond',
          at + make_interval(secs => o.delay)
        ));
        new_state := {schema}._due_state(due, j.queue, at);
      END IF;
    END IF;
    UPDATE {schema}._jobs AS k SET
      state = new_state, run_at = due, attempts = j.attempts, suspect = j.suspect,
      payload = j.payload, last_error = j.last_error,
      fingerprint = j.fingerprint, errors = j.errors, updated_at = at,
      holds = CASE
        WHEN new_state = 'cancelled' OR j.superseded THEN false
        WHEN o.kind = 'fail' THEN j.is_strict AND j.queue IS NOT NULL
        ELSE j.holds
      END,
      finished_at = CASE WHEN new_state IN ('failed', 'cancelled') THEN at END,
      superseded = false, cancel_requested = false,
      token = NULL, worker = NULL, claimed_at = NULL, lease_until = NULL
    WHERE k.id = j.id;
    IF new_state IN ('ready', 'waiting') THEN
      PERFORM pg_notify({channel}, '');
    ELSIF new_state = 'scheduled' AND due <= at + {soon} THEN
      PERFORM pg_notify({channel}, 'due');
    END IF;
  END IF;
  IF new_state IN ('completed', 'failed', 'cancelled') THEN
    IF {told j} THEN
      PERFORM {schema}._post_ends(ARRAY[j], ARRAY[o.output], new_state, at);
    END IF;
    PERFORM {schema}._ended(
      ARRAY[j.id], ARRAY[j.tenant], CASE WHEN j.queue IS NOT NULL THEN ARRAY[j.queue] END,
      CASE WHEN j.chain IS NOT NULL THEN ARRAY[
        {schema}._end_of_chain(j, new_state, o.output, j.token)] END,
      at);
  ELSIF j.queue IS NOT NULL THEN
    PERFORM {schema}._ring(ARRAY[j.tenant], ARRAY[j.queue]);
  END IF;
  RETURN new_state;
END $$;
