-- Jobs as users see them, without payload. The columns of graphile-worker's view, then our own. A
-- job that will not run again, whatever its attempts were, shows all of them as used: so monitoring
-- that compares attempts with max_attempts finds it.
CREATE OR REPLACE VIEW {schema}.jobs AS
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
  j.finished_at,
  nullif(j.tenant, '') AS tenant
FROM {schema}._jobs AS j
LEFT JOIN {schema}._in_batches AS b ON b.id = j.id AND {ready_undelivered j}
LEFT JOIN {schema}._workers AS w ON w.id = coalesce(j.worker, b.worker);
