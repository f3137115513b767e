-- What these jobs named, in order: [job, place, chain, state] of each.
-- Index expected: windlass_blockers_job.
SELECT CAST(json_group_array(json_array(job, place, chain, state)) AS BLOB)
FROM (
  SELECT b.job, b.place, b.chain, b.state
  FROM json_each(:jobs) AS i
  CROSS JOIN windlass_blockers AS b INDEXED BY windlass_blockers_job ON b.job = i.value
  ORDER BY i.key, b.place
)
