-- Set the state of these jobs, by id: half of exchanging the head of a queue for another job.
-- Index expected: the primary key.
UPDATE windlass_jobs SET state = :state WHERE id IN (SELECT value FROM json_each(:ids))
