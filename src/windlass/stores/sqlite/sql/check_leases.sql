-- Of the leases given as [id, token] or [id, token, chain]: those lost, with the reason, and those asked
-- to stop. Of a chain that is there another than this delivery has completed the job.
-- Index expected: the primary keys.
SELECT CAST(json_group_array(json_array(p.value ->> 0, CASE
  WHEN j.token = p.value ->> 1 AND j.state = 'running' THEN NULL
  WHEN h.id IS NOT NULL THEN 'already_completed'
  WHEN j.id IS NULL AND EXISTS (SELECT 1 FROM windlass_chains AS c WHERE c.id = p.value ->> 2)
    THEN 'already_completed'
  WHEN j.id IS NULL THEN 'not_found'
  WHEN j.state IN ('completed', 'failed', 'cancelled') THEN 'already_completed'
  ELSE 'taken_by_another_worker'
END)) AS BLOB)
FROM json_each(:leases) AS p
LEFT JOIN windlass_jobs AS j ON j.id = p.value ->> 0
LEFT JOIN windlass_history AS h ON h.id = p.value ->> 0
WHERE j.id IS NULL OR j.token IS NOT p.value ->> 1 OR j.state <> 'running' OR j.cancel_requested
