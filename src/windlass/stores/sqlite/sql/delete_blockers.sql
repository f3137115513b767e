-- Forget what these jobs named.
-- Index expected: windlass_blockers_job.
DELETE FROM windlass_blockers
WHERE (chain, job, place) IN (
  SELECT b.chain, b.job, b.place
  FROM json_each(:jobs) AS i
  CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job ON b.job = i.value
)
