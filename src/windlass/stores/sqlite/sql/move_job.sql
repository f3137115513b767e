-- Make a delivery that of another worker, which has a lease.
-- Index expected: the primary key; of workers the unique name.
UPDATE windlass_jobs
SET worker = (SELECT w.id FROM windlass_workers AS w WHERE w.name = :worker)
WHERE id = :id AND token = :token AND state = 'running'
