-- breaking: yes
-- What everybody may call from SQL: graphile-worker's names, orders and defaults.
--
-- The functions that add jobs run with their owner's rights, so that a role needs EXECUTE on them
-- and no right on any table. Nobody but the owner has EXECUTE until it is granted.

-- Jobs as users see them, without payload. The columns of graphile-worker's view, then our own. A
-- job that will not run again, whatever its attempts were, shows all of them as used: so monitoring
-- that compares attempts with max_attempts finds it.
CREATE VIEW {schema}.jobs AS
SELECT
  j.id,
  j.queue AS queue_name,
  j.task AS task_identifier,
  j.priority,
  j.run_at,
  CASE
    WHEN j.superseded OR j.state = 'failed'
      THEN greatest(j.attempts, coalesce(j.max_attempts, {max_attempts}))
    ELSE j.attempts + (b.base IS NOT NULL)::integer
  END AS attempts,
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

-- The largest payload that this session may send, in bytes.
CREATE FUNCTION {schema}._largest() RETURNS bigint LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('windlass.max_payload', true), '')::bigint, {max_payload});

CREATE FUNCTION {schema}._too_large(payload json, most bigint) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RAISE EXCEPTION 'Payload has % bytes, more than the % allowed', octet_length(payload::text), most
    USING ERRCODE = 'WLPAY',
      HINT = 'Store the data elsewhere and pass its id, or set windlass.max_payload.';
END $$;

-- A payload that is not too large; NULL is {}.
CREATE FUNCTION {schema}._fitting(payload json, most bigint) RETURNS json LANGUAGE sql STABLE
RETURN CASE
  WHEN payload IS NULL THEN '{}'::json
  WHEN octet_length(payload::text) > most THEN {schema}._too_large(payload, most)
  ELSE payload
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
BEGIN
  new_id := {schema}._add_job(
    identifier, {schema}._fitting(payload, {schema}._largest()), queue_name,
    coalesce({schema}._finite(run_at), now()), max_attempts, job_key,
    coalesce(job_key_mode, 'replace'), coalesce(priority, 0), {schema}._plain(flags), NULL,
    clock_timestamp());
  RETURN (
    SELECT {schema}._public(j, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = j.worker))
    FROM {schema}._jobs AS j WHERE j.id = new_id
  );
END $$;

-- Add many jobs, all or none, in the order given. Two with one key: the last wins.
CREATE FUNCTION {schema}.add_jobs(
  specs {schema}.job_spec[], job_key_preserve_run_at boolean DEFAULT false
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  at timestamptz := clock_timestamp();
  most bigint := {schema}._largest();
  mode text := CASE WHEN job_key_preserve_run_at THEN 'preserve_run_at' ELSE 'replace' END;
  ids bigint[];
BEGIN
  IF EXISTS (SELECT FROM unnest(specs) AS s WHERE s.job_key IS NOT NULL) THEN
    ids := {schema}._add_keyed(
      ARRAY(
        SELECT ROW(
          s.identifier, {schema}._fitting(s.payload, most), s.queue_name,
          coalesce({schema}._finite(s.run_at), now()), s.max_attempts, s.job_key, mode,
          coalesce(s.priority, 0),
          CASE WHEN s.flags IS NOT NULL THEN {schema}._plain(s.flags) END, NULL
        )::{schema}._request
        FROM unnest(specs) AS s
      ),
      mode, at);
    RETURN QUERY
    SELECT ({schema}._public(j, NULL)).* FROM unnest(ids) WITH ORDINALITY AS x (id, place)
    JOIN {schema}._jobs AS j ON j.id = x.id
    ORDER BY x.place;
    RETURN;
  END IF;
  -- Nothing here changes the order in which they are given: a sort of so many would go to the disk.
  RETURN QUERY
  WITH given AS MATERIALIZED (  -- what is a column is no call below, however often it is used
    SELECT s.identifier, {schema}._fitting(s.payload, most) AS payload, s.queue_name,
      coalesce({schema}._finite(s.run_at), now()) AS due, s.max_attempts,
      coalesce(s.priority, 0) AS priority,
      CASE WHEN s.flags IS NOT NULL THEN {schema}._plain(s.flags) END AS flags
    FROM unnest(specs) AS s
  ),
  added AS (
    INSERT INTO {schema}._jobs AS j
      (run_at, created_at, updated_at, state, priority, max_attempts, task, payload, queue, flags)
    SELECT
      g.due, at, at, {schema}._due_state(g.due, g.queue_name, at), g.priority, g.max_attempts,
      {schema}._accepted(g.identifier, g.queue_name, NULL, g.max_attempts, g.flags, NULL),
      {schema}._sound(g.payload), g.queue_name, g.flags
    FROM given AS g
    RETURNING j.*
  )
  SELECT ({schema}._public(a, NULL)).* FROM added AS a
  WHERE (
    SELECT {schema}._announce(
      ARRAY(SELECT DISTINCT w.queue FROM added AS w WHERE w.state = 'waiting'),
      bool_or(x.state <> 'scheduled'),
      bool_or(x.state = 'scheduled' AND x.run_at <= at + {soon})
    ) FROM added AS x
  );
END $$;

-- Delete the job with that key, or null. One that runs loses its key and will not run again.
CREATE FUNCTION {schema}.remove_job(job_key text) RETURNS {schema}.job LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT {schema}._public(j, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = j.worker))
  FROM {schema}._remove_job(job_key) AS j
);

CREATE FUNCTION {schema}.complete_jobs(job_ids bigint[]) RETURNS SETOF {schema}.job
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT c.* FROM {schema}._change(
    job_ids, ROW('complete', NULL, NULL, NULL, NULL, NULL)::{schema}._edit, statement_timestamp()
  ) AS c;
END $$;

-- graphile-worker calls it `error_message`, and its page the reason: both names are understood.
CREATE FUNCTION {schema}.permanently_fail_jobs(
  job_ids bigint[], error_message text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS SETOF {schema}.job LANGUAGE plpgsql AS $$
DECLARE
  told text := coalesce(error_message, reason, 'Manually marked as failed');
BEGIN
  RETURN QUERY SELECT c.* FROM {schema}._change(
    job_ids, ROW('fail', told, NULL, NULL, NULL, NULL)::{schema}._edit, statement_timestamp()
  ) AS c;
END $$;

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
  RETURN QUERY SELECT c.* FROM {schema}._change(
    job_ids,
    ROW('reschedule', NULL, {schema}._finite(run_at), priority, attempts, max_attempts)
      ::{schema}._edit,
    statement_timestamp()
  ) AS c;
END $$;

-- Treat these workers as dead: what they hold goes back to the queue.
CREATE FUNCTION {schema}.force_unlock_workers(worker_ids text[]) RETURNS SETOF {schema}.job
LANGUAGE sql
BEGIN ATOMIC
  SELECT ({schema}._public(j, NULL)).* FROM {schema}._unlock(worker_ids, {max_resets}) AS j;
END;

ALTER FUNCTION {schema}._enqueue(text, boolean, timestamptz)
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION
  {schema}.add_job(text, json, text, timestamptz, integer, text, integer, text[], text),
  {schema}.add_jobs({schema}.job_spec[], boolean),
  {schema}.remove_job(text),
  {schema}._enqueue(text, boolean, timestamptz)
FROM PUBLIC;
