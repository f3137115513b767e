-- The best `_most` suspects of these branches (see `_pick_n.sql`) after the place `_after`, if one is
-- given.
CREATE OR REPLACE FUNCTION {schema}._suspects(
  _kind text, _tasks text[], _tenants text[], _most integer, _forbidden text[], _after bigint[]
) RETURNS TABLE (tid tid, priority integer, run_at timestamptz, id bigint)
LANGUAGE plpgsql AS $$
BEGIN
  IF _most <= 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT u.* FROM (
    (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
     WHERE (_tenants = '{}' OR '' = ANY (_tenants))
       AND j.state = 'ready' AND j.suspect AND j.tenant = '' AND j.task IN (
         SELECT b.task FROM unnest(_tasks, _tenants) AS b (task, tenant)
         WHERE coalesce(b.tenant, '') = '')
       AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
         _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
       AND (j.flags && _forbidden) IS NOT TRUE
     ORDER BY j.priority, j.run_at, j.id LIMIT _most)
    UNION ALL
    (SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
     WHERE j.state = 'ready' AND j.suspect AND j.tenant > '' AND _kind = 'every'
       AND j.task IN (SELECT t.name FROM unnest(_tasks) AS t (name))
       AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
         _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
       AND (j.flags && _forbidden) IS NOT TRUE
     ORDER BY j.priority, j.run_at, j.id LIMIT _most)
    UNION ALL
    (SELECT s.* FROM (
       SELECT DISTINCT t.name FROM unnest(_tenants) AS t (name)
       WHERE t.name <> '' AND _kind = 'named'
     ) AS t CROSS JOIN LATERAL (
       SELECT j.ctid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND j.suspect AND j.tenant <> '' AND j.tenant = t.name
         AND (j.tenant, j.task) IN (
           SELECT b.tenant, b.task FROM unnest(_tenants, _tasks) AS b (tenant, task))
         AND (_after IS NULL OR (j.priority, j.run_at, j.id) > (
           _after[1], timestamptz 'epoch' + _after[2] * interval '1 microsecond', _after[3]))
         AND (j.flags && _forbidden) IS NOT TRUE
       ORDER BY j.priority, j.run_at, j.id LIMIT _most
     ) AS s)
  ) AS u (tid, priority, run_at, id) ORDER BY u.priority, u.run_at, u.id LIMIT _most;
END $$;
