-- Add a job of the transaction's tenant. `max_attempts` is 25 unless its task says otherwise; a null
-- payload is {}. NULL for any other argument is its default.
CREATE OR REPLACE FUNCTION {schema}.add_job(
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
  tenant text := {schema}._own_tenant();
  is_strict boolean := {schema}._own_strict();
  new_id bigint;
BEGIN
  identifier := {schema}._unreserved(identifier);
  payload := {schema}._fitting(payload, {schema}._largest());
  flags := {schema}._plain(flags);
  priority := coalesce(priority, 0);
  SELECT {schema}._add_job({request_of_call}, clock_timestamp()) INTO new_id
  FROM (VALUES (
    coalesce({schema}._finite(run_at), now()), coalesce(job_key_mode, 'replace')
  )) AS d (due, mode);
  RETURN (
    SELECT {schema}._public(j, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = j.worker))
    FROM {schema}._jobs AS j WHERE j.id = new_id
  );
END $$;
