-- End deliveries of many claims, given as [id, token], whose chains go on; see delete_continued.
-- Index expected: the primary key.
DELETE FROM windlass_jobs
WHERE id IN (
  SELECT j.id FROM json_each(:pairs) AS p
  CROSS JOIN windlass_jobs AS j ON j.id = p.value ->> 0
  WHERE j.token = p.value ->> 1 AND j.state = 'running' AND j.cancel_requested = 0
)
