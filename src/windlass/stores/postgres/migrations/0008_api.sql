-- breaking: yes
-- What everybody may call from SQL: graphile-worker's names, orders and defaults.
--
-- The functions that add jobs run with their owner's rights, so that a role needs EXECUTE on them
-- and no right on any table. Nobody but the owner has EXECUTE until it is granted.

-- Jobs as users see them, without payload. The columns of graphile-worker's view, then our own.
CREATE VIEW {schema}.jobs AS
SELECT
  j.id,
  j.queue AS queue_name,
  j.task AS task_identifier,
  j.priority,
  j.run_at,
  j.attempts + (b.base IS NOT NULL)::integer AS attempts,
  coalesce(j.max_attempts, {max_attempts}) AS max_attempts,
  j.last_error,
  j.created_at,
  j.updated_at,
  j.key,
  coalesce(j.claimed_at, b.claimed_at) AS locked_at,
  w.name AS locked_by,
  j.revision,
  j.flags,
  CASE
    WHEN b.base IS NOT NULL THEN 'running'
    WHEN j.state = 'waiting' THEN 'ready'
    ELSE j.state::text
  END AS state,
  j.deliveries + (b.base IS NOT NULL)::integer AS deliveries,
  j.resets,
  j.keep,
  j.progress,
  j.finished_at
FROM {schema}._jobs AS j
LEFT JOIN {schema}._in_batches AS b ON b.id = j.id AND j.state = 'ready' AND j.deliveries = 0
LEFT JOIN {schema}._workers AS w ON w.id = coalesce(j.worker, b.worker);

-- What the functions below return: the view's columns and the payload.
CREATE TYPE {schema}.job AS (
  id bigint,
  queue_name text,
  task_identifier text,
  priority integer,
  run_at timestamptz,
  attempts integer,
  max_attempts integer,
  last_error text,
  created_at timestamptz,
  updated_at timestamptz,
  key text,
  locked_at timestamptz,
  locked_by text,
  revision integer,
  flags text[],
  payload json,
  state text
);

CREATE FUNCTION {schema}._public(j {schema}._jobs) RETURNS {schema}.job LANGUAGE sql STABLE
RETURN ROW(
  (j).id, (j).queue, (j).task, (j).priority, (j).run_at, (j).attempts,
  coalesce((j).max_attempts, {max_attempts}), (j).last_error, (j).created_at, (j).updated_at,
  (j).key, (j).claimed_at, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = (j).worker),
  (j).revision, (j).flags, (j).payload,
  CASE (j).state WHEN 'waiting' THEN 'ready' ELSE (j).state::text END)::{schema}.job;

-- Refuse what is too large, or what a program that reads it could not represent: PostgreSQL's
-- json also takes NUL, half characters, numbers of any size and any depth. What needs a walk over
-- the value is looked for only where the text gives a reason.
CREATE FUNCTION {schema}._check_payload(payload json) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  most bigint := coalesce(
    nullif(current_setting('windlass.max_payload', true), '')::bigint, {max_payload});
  body text := payload::text;
  tree jsonb;
BEGIN
  IF octet_length(body) > most THEN
    RAISE EXCEPTION 'Payload has % bytes, more than the % allowed', octet_length(body), most
      USING ERRCODE = 'WLPAY',
        HINT = 'Store the data elsewhere and pass its id, or set windlass.max_payload.';
  END IF;
  IF body ~ '\\u|[0-9][eE][+]?[0-9]{2}|[0-9]{255}'
    OR length(body) - length(translate(body, '[{', '')) > 64
  THEN
    tree := payload::jsonb;
    IF jsonb_path_exists(
      tree, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")')
    THEN
      RAISE EXCEPTION 'Payload is nested deeper than 64 levels' USING ERRCODE = 'WLPAY';
    END IF;
    IF jsonb_path_exists(tree, 'strict $.** ? (@.type() == "number" &&'
      ' (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
    THEN
      RAISE EXCEPTION 'Payload has a number beyond double precision'
        USING ERRCODE = 'WLPAY', HINT = 'Send it as text.';
    END IF;
  END IF;
END $$;

-- One clear error for each limit; nothing is stored.
CREATE FUNCTION {schema}._check_spec(spec {schema}.job_spec, job_key_mode text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF spec.identifier IS NULL OR spec.identifier = '' OR length(spec.identifier) > 128 THEN
    RAISE EXCEPTION 'Task identifier must have 1 to 128 characters, not %',
      coalesce(length(spec.identifier), 0) USING ERRCODE = 'GWBID';
  END IF;
  IF spec.queue_name = '' OR length(spec.queue_name) > 128 THEN
    RAISE EXCEPTION 'Queue name must have 1 to 128 characters, not %', length(spec.queue_name)
      USING ERRCODE = 'GWBQN';
  END IF;
  IF spec.job_key = '' OR length(spec.job_key) > 512 THEN
    RAISE EXCEPTION 'Job key must have 1 to 512 characters, not %', length(spec.job_key)
      USING ERRCODE = 'GWBJK';
  END IF;
  IF spec.max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', spec.max_attempts
      USING ERRCODE = 'GWBMA';
  END IF;
  IF job_key_mode NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'Job key mode must be replace, preserve_run_at or unsafe_dedupe, not %',
      job_key_mode USING ERRCODE = 'GWBKM';
  END IF;
  PERFORM {schema}._check_payload(spec.payload);
END $$;

-- An instant that every clock can show: infinity is the end of the year 9999. NULL stays NULL.
CREATE FUNCTION {schema}._finite(instant timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN instant IS NOT NULL THEN
  least(greatest(instant, timestamptz '1970-01-01 00:00:00+00'),
    {last_instant})
END;

-- Flags as a plain list without NULLs; no flags are NULL.
CREATE FUNCTION {schema}._plain(flags text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN nullif(ARRAY(
  SELECT f.flag FROM unnest(flags) WITH ORDINALITY AS f (flag, place)
  WHERE f.flag IS NOT NULL ORDER BY f.place
), '{}');

-- Add a job. `max_attempts` is 25 unless its task says otherwise; a null payload is {}. NULL for
-- any other argument is its default.
CREATE FUNCTION {schema}.add_job(
  identifier text,
  payload json DEFAULT '{}',
  queue_name text DEFAULT NULL,
  run_at timestamptz DEFAULT now(),
  max_attempts integer DEFAULT NULL,
  job_key text DEFAULT NULL,
  priority integer DEFAULT 0,
  flags text[] DEFAULT NULL,
  job_key_mode text DEFAULT 'replace'
) RETURNS {schema}.job LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  new_id bigint;
  added {schema}._jobs;
BEGIN
  PERFORM {schema}._check_spec(
    ROW(identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags)
      ::{schema}.job_spec,
    job_key_mode);
  new_id := {schema}._add_job(
    identifier, coalesce(payload, '{}'), queue_name, coalesce({schema}._finite(run_at), now()),
    max_attempts, job_key, coalesce(job_key_mode, 'replace'), coalesce(priority, 0),
    {schema}._plain(flags), NULL, clock_timestamp());
  SELECT j.* INTO added FROM {schema}._jobs AS j WHERE j.id = new_id;
  RETURN {schema}._public(added);
END $$;

-- Add many jobs, all or none, in the order given. Two with one key: the last wins.
CREATE FUNCTION {schema}.add_jobs(
  specs {schema}.job_spec[], job_key_preserve_run_at boolean DEFAULT false
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  mode text := CASE WHEN job_key_preserve_run_at THEN 'preserve_run_at' ELSE 'replace' END;
  spec {schema}.job_spec;
  ids bigint[];
BEGIN
  FOREACH spec IN ARRAY coalesce(specs, '{}') LOOP
    PERFORM {schema}._check_spec(spec, mode);
  END LOOP;
  ids := {schema}._add_jobs(
    (SELECT json_agg(json_build_object(
      'task', s.identifier, 'payload', coalesce(s.payload, '{}'), 'queue', s.queue_name,
      'run_at', {schema}._micros(coalesce({schema}._finite(s.run_at), now())),
      'max_attempts', s.max_attempts, 'key', s.job_key, 'key_mode', mode,
      'priority', s.priority, 'flags', {schema}._plain(s.flags)
    )) FROM unnest(specs) AS s),
    EXISTS (SELECT FROM unnest(specs) AS s WHERE s.job_key IS NOT NULL),
    clock_timestamp());
  RETURN QUERY
  SELECT p.* FROM unnest(ids) WITH ORDINALITY AS x (id, place)
  JOIN {schema}._jobs AS j ON j.id = x.id
  CROSS JOIN LATERAL {schema}._public(j) AS p
  ORDER BY x.place;
END $$;

-- Delete the job with that key, or null. One that runs loses its key and will not run again.
CREATE FUNCTION {schema}.remove_job(job_key text) RETURNS {schema}.job LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT {schema}._public(j) FROM {schema}._remove_job(job_key) AS j);

CREATE FUNCTION {schema}.complete_jobs(job_ids bigint[]) RETURNS SETOF {schema}.job LANGUAGE sql
BEGIN ATOMIC
  SELECT p.* FROM {schema}._complete_jobs(job_ids) AS j
  CROSS JOIN LATERAL {schema}._public(j) AS p;
END;

CREATE FUNCTION {schema}.permanently_fail_jobs(
  job_ids bigint[], reason text DEFAULT 'Manually marked as failed'
) RETURNS SETOF {schema}.job LANGUAGE sql
BEGIN ATOMIC
  SELECT p.* FROM {schema}._fail_jobs(job_ids, coalesce(reason, 'Manually marked as failed')) AS j
  CROSS JOIN LATERAL {schema}._public(j) AS p;
END;

CREATE FUNCTION {schema}.reschedule_jobs(
  job_ids bigint[],
  run_at timestamptz DEFAULT NULL,
  priority integer DEFAULT NULL,
  attempts integer DEFAULT NULL,
  max_attempts integer DEFAULT NULL
) RETURNS SETOF {schema}.job LANGUAGE plpgsql AS $$
BEGIN
  IF max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', max_attempts
      USING ERRCODE = 'GWBMA';
  END IF;
  RETURN QUERY
  SELECT p.* FROM {schema}._reschedule_jobs(
    job_ids, {schema}._finite(run_at), priority, attempts, max_attempts) AS j
  CROSS JOIN LATERAL {schema}._public(j) AS p;
END $$;

-- Treat these workers as dead: what they hold goes back to the queue.
CREATE FUNCTION {schema}.force_unlock_workers(worker_ids text[]) RETURNS SETOF {schema}.job
LANGUAGE sql
BEGIN ATOMIC
  SELECT p.* FROM {schema}._unlock(worker_ids, {max_resets}) AS j
  CROSS JOIN LATERAL {schema}._public(j) AS p;
END;

ALTER FUNCTION {schema}._enqueue(text, boolean, timestamptz)
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION
  {schema}.add_job(text, json, text, timestamptz, integer, text, integer, text[], text),
  {schema}.add_jobs({schema}.job_spec[], boolean),
  {schema}.remove_job(text),
  {schema}._enqueue(text, boolean, timestamptz)
FROM PUBLIC;
