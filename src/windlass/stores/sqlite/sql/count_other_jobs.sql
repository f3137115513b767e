-- How many jobs of all tenants but the default one are in each state.
-- Index expected: windlass_jobs_tenant, windlass_history_tenant.
SELECT CAST(json_group_object(state, jobs) AS BLOB)
FROM (
  SELECT iif(state = 'waiting', 'ready', state) AS state, count(*) AS jobs FROM windlass_jobs
  WHERE tenant <> ''
  GROUP BY 1
  UNION ALL
  SELECT 'completed', count(*) FROM windlass_history WHERE tenant <> ''
)
