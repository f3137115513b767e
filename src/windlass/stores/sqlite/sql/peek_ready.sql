-- Whether a claim has anything to write: a job of these tasks is claimable, or the worker was not
-- heard of for a while (its lease ends before :fresh, or it is unknown). Jobs of the default tenant
-- count with :of_default, those of all others with :of_others, else those of :tenants.
-- Index expected: windlass_jobs_ready, …_ready_others, …_ready_tenant, covering; the workers' unique
-- name.
SELECT CASE
  WHEN NOT EXISTS (
    SELECT 1 FROM windlass_workers WHERE name = :worker AND expires_at > :fresh
  ) THEN true
  WHEN :of_default AND EXISTS (
    SELECT 1 FROM json_each(:tasks) AS t
    CROSS JOIN windlass_jobs AS j ON j.state = 'ready' AND j.tenant = '' AND j.task = t.value
  ) THEN true
  WHEN NOT EXISTS (
    SELECT 1 FROM windlass_jobs WHERE state = 'ready' AND tenant <> '' AND task >= ''
  ) THEN false
  WHEN :of_others THEN EXISTS (
    SELECT 1 FROM json_each(:tasks) AS t
    CROSS JOIN windlass_jobs AS j ON j.state = 'ready' AND j.tenant <> '' AND j.task = t.value
  )
  ELSE EXISTS (
    SELECT 1 FROM json_each(:tenants) AS o
    CROSS JOIN json_each(:tasks) AS t
    CROSS JOIN windlass_jobs AS j
      ON j.state = 'ready' AND j.tenant <> '' AND j.tenant = o.value AND j.task = t.value
  )
END
