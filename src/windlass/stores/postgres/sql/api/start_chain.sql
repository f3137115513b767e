-- Start a chain of the transaction's tenant with this job, or answer with the open chain that has the key.
-- `blockers` are chains that must end before the job may start. NULL for any argument but the first is
-- its default.
CREATE OR REPLACE FUNCTION {schema}.start_chain(
  identifier text,
  payload json DEFAULT '{}',
  queue_name text DEFAULT NULL,
  run_at timestamptz DEFAULT now(),
  max_attempts integer DEFAULT NULL,
  chain_key text DEFAULT NULL,
  priority integer DEFAULT 0,
  flags text[] DEFAULT NULL,
  blockers bigint[] DEFAULT NULL
) RETURNS {schema}.chain LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  at timestamptz := clock_timestamp();
  own text := {schema}._own_tenant();
  link json;
  ids bigint[];
BEGIN
  identifier := {schema}._unreserved(identifier);
  payload := {schema}._fitting(payload, {schema}._largest());
  link := json_build_array(json_build_object(
    'task', identifier, 'queue', queue_name,
    'run_at', {schema}._micros(coalesce({schema}._finite(run_at), now())),
    'max_attempts', max_attempts, 'priority', coalesce(priority, 0),
    'flags', {schema}._plain(flags), 'tenant', own, 'is_strict', {schema}._own_strict(),
    'blockers', blockers, 'chain_key', chain_key, 'places', ARRAY[1],
    'payloads', json_build_array(payload)));
  PERFORM {schema}._require_chains(link);
  ids := {schema}._begin(
    CASE WHEN chain_key IS NULL THEN link END, CASE WHEN chain_key IS NOT NULL THEN link END,
    ARRAY[nextval({sequence})], NULL, true, at);
  RETURN {schema}._shown_chain(ids[1]);
END $$;
