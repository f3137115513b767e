-- The tenants and tasks of suspects; of all where the first thousand do not tell.
CREATE OR REPLACE FUNCTION {schema}._suspect_tasks() RETURNS TABLE (tenant text, task text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  most CONSTANT integer := 1000;
BEGIN
  IF EXISTS (
    (SELECT FROM {schema}._jobs AS j
     WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
     ORDER BY j.priority, j.run_at, j.id OFFSET most LIMIT 1)
    UNION ALL
    (SELECT FROM {schema}._jobs AS j
     WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
     ORDER BY j.priority, j.run_at, j.id OFFSET most LIMIT 1)
  ) THEN
    RETURN QUERY SELECT NULL::text, NULL::text;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT DISTINCT s.tenant, s.task FROM (
    SELECT j.tenant, j.task FROM {schema}._jobs AS j
    WHERE j.state = 'ready' AND j.suspect AND j.tenant = ''
    UNION ALL
    SELECT j.tenant, j.task FROM {schema}._jobs AS j
    WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
  ) AS s
  WHERE NOT {schema}._is_paused(s.tenant, s.task);
END $$;
