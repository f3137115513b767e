-- Jobs wait for fewer chains, given as [job, chains].
-- Index expected: the primary key.
UPDATE windlass_jobs
SET blockers_open = blockers_open - (value ->> 1)
FROM json_each(:jobs)
WHERE windlass_jobs.id = value ->> 0
