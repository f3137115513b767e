-- Whether any scheduled job is due.
-- Index expected: windlass_jobs_scheduled, covering.
SELECT EXISTS (SELECT 1 FROM windlass_jobs WHERE state = 'scheduled' AND run_at <= :now)
