-- The open jobs that have these keys.
-- Index expected: windlass_jobs_key.
SELECT CAST(json_group_array({job_row}) AS BLOB)
FROM {named} AS k
CROSS JOIN windlass_jobs AS j
  ON j.key = k.name AND j.tenant = k.tenant AND j.state <> 'cancelled'
