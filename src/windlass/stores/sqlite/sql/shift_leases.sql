-- Leases with an end of their own move by :shift.
-- Index expected: windlass_jobs_running.
UPDATE windlass_jobs SET lease_until = lease_until + :shift
WHERE state = 'running' AND lease_until IS NOT NULL
