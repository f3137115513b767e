-- Copy completed jobs, given as [id, token, output, keep, expires_at], into the history.
-- Index expected: the primary key.
INSERT INTO windlass_history ({history})
SELECT {history_of_job}
FROM json_each(:completed) AS p
CROSS JOIN windlass_jobs AS j ON j.id = p.value ->> 0
WHERE j.token = p.value ->> 1 AND j.state = 'running'
