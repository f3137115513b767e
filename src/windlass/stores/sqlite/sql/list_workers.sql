-- Workers by name, all or those that serve a tenant: [name, expires_at, running]. They count the jobs
-- of that tenant alone.
-- Index expected: the unique name, windlass_jobs_running.
SELECT CAST(json_group_array(json_array(name, expires_at, running)) AS BLOB)
FROM (
  SELECT
    w.name, w.expires_at,
    CASE WHEN :tenant IS NULL
      THEN (SELECT count(*) FROM windlass_jobs AS j
            WHERE j.worker = w.id AND j.state = 'running')
      ELSE (SELECT count(*) FROM windlass_jobs AS j
            WHERE j.worker = w.id AND j.state = 'running' AND j.tenant = :tenant)
    END AS running
  FROM windlass_workers AS w
  WHERE :tenant IS NULL OR w.tenants IS NULL
    OR :tenant IN (SELECT value FROM json_each(w.tenants))
  ORDER BY w.name
)
