-- Failed jobs, the oldest first: [id, tenant, queue] of each.
-- Index expected: windlass_jobs_ended; for one tenant windlass_jobs_ended_tenant.
SELECT CAST(json_group_array(json_array(id, tenant, queue)) AS BLOB)
FROM (
  SELECT j.id, j.tenant, j.queue FROM windlass_jobs AS j
  WHERE j.finished_at IS NOT NULL AND j.state = 'failed' AND {seen}
  ORDER BY j.id
  LIMIT :limit
)
