-- Groups of failed jobs by the fingerprints of their errors, of a tenant or of all (NULL): of the first
-- `_groups` + 1 those whose newest jobs are the newest. [groups that were looked at, [[fingerprint, jobs
-- (`_most` + 1 at most), the latest of these as tenant, task, error, when it failed, its id], …]]. `_first`
-- is what the fingerprints of the tenant begin with.
CREATE OR REPLACE FUNCTION {schema}._error_groups(
  _limit integer, _tenant text, _first text, _most integer, _groups integer
) RETURNS json LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  known text := '';
  newest bigint;
  owner text;
  looked integer := 0;
  fingerprints text[] := '{}';
  ids bigint[] := '{}';
BEGIN
  -- What has no fingerprint stands before all others, whatever its tenant.
  SELECT max(n.id) INTO newest FROM (
    SELECT j.id, j.tenant FROM {schema}._jobs AS j
    WHERE j.state = 'failed' AND coalesce(j.fingerprint, '') = ''
    ORDER BY coalesce(j.fingerprint, '') DESC, j.id DESC LIMIT _most + 1
  ) AS n WHERE coalesce(n.tenant = _tenant, true);
  IF newest IS NOT NULL THEN
    looked := 1;
    fingerprints := ARRAY[''];
    ids := ARRAY[newest];
  END IF;
  known := _first;
  WHILE looked <= _groups LOOP
    SELECT coalesce(j.fingerprint, '') INTO known FROM {schema}._jobs AS j
    WHERE j.state = 'failed' AND coalesce(j.fingerprint, '') > known
    ORDER BY coalesce(j.fingerprint, ''), j.id LIMIT 1;
    EXIT WHEN NOT FOUND OR NOT starts_with(known, _first);
    SELECT j.id, j.tenant INTO newest, owner FROM {schema}._jobs AS j
    WHERE j.state = 'failed' AND coalesce(j.fingerprint, '') = known
    ORDER BY coalesce(j.fingerprint, '') DESC, j.id DESC LIMIT 1;
    IF coalesce(owner = _tenant, true) THEN
      looked := looked + 1;
      fingerprints := fingerprints || known;
      ids := ids || newest;
    END IF;
  END LOOP;
  RETURN json_build_array(looked, (
    SELECT coalesce(json_agg(json_build_array(
      g.fingerprint, f.jobs, j.tenant, j.task, left(coalesce(j.last_error, ''), {max_error_text}),
      {schema}._micros(j.finished_at), j.id
    ) ORDER BY j.finished_at DESC, j.id DESC), '[]')
    FROM (
      SELECT u.fingerprint FROM unnest(fingerprints, ids) AS u (fingerprint, id)
      ORDER BY u.id DESC LIMIT _limit
    ) AS g
    CROSS JOIN LATERAL (
      SELECT count(*) AS jobs, (array_agg(k.id ORDER BY k.finished_at DESC, k.id DESC))[1] AS latest
      FROM (
        SELECT o.id, o.finished_at, o.tenant FROM {schema}._jobs AS o
        WHERE o.state = 'failed' AND coalesce(o.fingerprint, '') = g.fingerprint
        ORDER BY coalesce(o.fingerprint, '') DESC, o.id DESC LIMIT _most + 1
      ) AS k WHERE coalesce(k.tenant = _tenant, true)
    ) AS f
    JOIN {schema}._jobs AS j ON j.id = f.latest
  ));
END $$;
