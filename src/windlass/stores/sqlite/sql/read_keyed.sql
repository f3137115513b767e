-- The open jobs that have these keys.
-- Index expected: windlass_jobs_key.
SELECT CAST('[' || coalesce(group_concat(row), '') || ']' AS BLOB)
FROM json_each(:keys) AS k
CROSS JOIN windlass_job_rows AS r ON r.key = k.value AND r.state <> 'cancelled'
