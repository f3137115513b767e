-- Whether anything is claimable, and when the next scheduled job is due.
-- Index expected: windlass_jobs_ready, windlass_jobs_ready_others, windlass_jobs_scheduled.
SELECT CAST(json_array(
  EXISTS (SELECT 1 FROM windlass_jobs WHERE state = 'ready' AND tenant = '')
    OR EXISTS (SELECT 1 FROM windlass_jobs WHERE state = 'ready' AND tenant <> ''),
  (SELECT min(run_at) FROM windlass_jobs WHERE state = 'scheduled')
) AS BLOB)
