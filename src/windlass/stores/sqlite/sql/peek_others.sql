-- Whether tenants other than the default one have ready jobs (1), and also paused tasks (2).
-- Index expected: windlass_jobs_ready_others, covering; the primary key of windlass_paused.
SELECT CASE WHEN EXISTS (
  SELECT 1 FROM windlass_jobs WHERE state = 'ready' AND tenant <> '' AND task >= ''
) THEN 1 + EXISTS (SELECT 1 FROM windlass_paused WHERE tenant > '' AND kind = 'task') ELSE 0 END
