-- A page of jobs with a key that did not complete, the newest first.
-- Index expected: windlass_jobs_key, windlass_jobs_key_cancelled.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM (
  SELECT {job_row} AS row FROM windlass_jobs AS j
  WHERE j.id IN (
      SELECT k.id FROM windlass_jobs AS k WHERE k.key = :key AND k.state <> 'cancelled'
      UNION ALL
      SELECT k.id FROM windlass_jobs AS k WHERE k.key = :key AND k.state = 'cancelled'
    )
    AND j.id < :before
    AND (:tenant IS NULL OR j.tenant = :tenant)
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
  ORDER BY j.id DESC
  LIMIT :limit
)
