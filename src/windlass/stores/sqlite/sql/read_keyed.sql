-- The open jobs that have these keys.
-- Index expected: windlass_jobs_key.
SELECT CAST(json_group_array({job_row}) AS BLOB)
FROM json_each(:keys) AS k
CROSS JOIN windlass_jobs AS j ON j.key = k.value AND j.state <> 'cancelled'
