-- What was done since an instant, of one task or (the task '') all, by steps: [at, task, numbers …].
-- Index expected: the primary key.
SELECT CAST(json_group_array(json(row)) AS BLOB)
FROM (
  SELECT json_array(r.period - r.period % :step, r.task, {rates_summed}) AS row
  FROM windlass_rates AS r
  WHERE r.task = :task AND r.period >= :since AND (:tenant IS NULL OR r.tenant = :tenant)
  GROUP BY r.period - r.period % :step
  ORDER BY r.period - r.period % :step
)
