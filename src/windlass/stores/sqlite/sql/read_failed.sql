-- Failed jobs, the oldest first: [id, tenant, queue, blockers_total] of each.
-- Index expected: windlass_jobs_ended; for one tenant windlass_jobs_ended_tenant.
SELECT CAST(json_group_array(json_array(id, tenant, queue, blockers_total)) AS BLOB)
FROM (
  SELECT j.id, j.tenant, j.queue, j.blockers_total FROM windlass_jobs AS j
  WHERE j.finished_at IS NOT NULL AND j.state = 'failed' AND {seen}
  ORDER BY j.id
  LIMIT :limit
)
