-- What was done since an instant by each task, by steps: [at, task, numbers …].
-- Index expected: windlass_rates_period.
SELECT CAST(json_group_array(json(row)) AS BLOB)
FROM (
  SELECT json_array(r.period - r.period % :step, r.task, {rates_summed}) AS row
  FROM windlass_rates AS r
  WHERE r.period >= :since AND r.task <> '' AND (:tenant IS NULL OR r.tenant = :tenant)
    AND (:task IS NULL OR r.task = :task)
  GROUP BY r.period - r.period % :step, r.task
  ORDER BY r.period - r.period % :step, r.task
)
