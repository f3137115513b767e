-- As claim_ready, but only jobs without these flags, and with :suspect (0 or 1) in that column.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant.
SELECT CAST(json_group_array({lease}) AS BLOB)
FROM (
  /*branch*/
  SELECT priority, run_at, id FROM windlass_jobs
  WHERE state = 'ready' AND {owned}
    AND suspect = :suspect
    AND (flags IS NULL OR NOT EXISTS (
      SELECT 1 FROM json_each(flags) AS f
      WHERE f.value IN (SELECT value FROM json_each(:forbidden))
    ))
  /*end*/
  ORDER BY priority, run_at, id
  LIMIT :limit
) AS c
CROSS JOIN windlass_jobs AS j ON j.id = c.id
