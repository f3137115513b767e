-- Ready jobs of the tasks that are paused for the tenants of some of these jobs go back to waiting,
-- at most :most. The default tenant's stay: claims leave its paused tasks out.
-- Index expected: the primary keys, windlass_jobs_ready_tenant.
UPDATE windlass_jobs
SET state = 'waiting'
WHERE id IN (
  SELECT j.id
  FROM (
    SELECT DISTINCT m.tenant, m.task
    FROM json_each(:ids) AS i
    CROSS JOIN windlass_jobs AS m ON m.id = i.value
    CROSS JOIN windlass_paused AS p
      ON p.tenant = m.tenant AND p.kind = 'task' AND p.name = m.task
  ) AS met
  CROSS JOIN windlass_jobs AS j
    ON j.state = 'ready' AND j.tenant <> '' AND j.tenant = met.tenant AND j.task = met.task
  LIMIT :most
)
