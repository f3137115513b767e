-- As keep_completed, for jobs that continue, given as [id, token, output, keep, expires_at]: one that
-- was in no chain is the first of its own.
-- Index expected: the primary key.
INSERT INTO windlass_history ({history})
SELECT {history_of_continued}
FROM json_each(:completed) AS p
CROSS JOIN windlass_jobs AS j ON j.id = p.value ->> 0
WHERE j.token = p.value ->> 1 AND j.state = 'running'
