-- The best claimable jobs as leases (the order of `records.Lease`), their ids, how many there are,
-- how many of them are suspects and how many named chains, whether beat_worker would write anything,
-- and what peek_others says.
-- The branch is repeated for each task and owner, see `statements.py` (no task at all where it is
-- paused); ordered branches are merged, so no more rows are visited than returned.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant; the workers' unique name.
SELECT CAST(json_group_array({lease}) AS BLOB),
  json_group_array(j.id), count(*), coalesce(sum(j.suspect), 0),
  count(j.blockers_total), NOT EXISTS (
    SELECT 1 FROM windlass_workers
    WHERE name = :worker AND expires_at > :fresh AND expires_at <= :expires_at
  ), CASE WHEN EXISTS (
    SELECT 1 FROM windlass_jobs WHERE state = 'ready' AND tenant <> '' AND task >= ''
  ) THEN 1 + EXISTS (SELECT 1 FROM windlass_paused WHERE tenant > '' AND kind = 'task') ELSE 0 END
FROM (
  /*branch*/
  SELECT priority, run_at, id FROM windlass_jobs
  WHERE state = 'ready' AND {owned}
  /*end*/
  ORDER BY priority, run_at, id
  LIMIT :limit
) AS c
CROSS JOIN windlass_jobs AS j ON j.id = c.id
