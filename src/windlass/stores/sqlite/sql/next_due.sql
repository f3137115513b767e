-- When the next scheduled job is due.
-- Index expected: windlass_jobs_scheduled, covering.
SELECT min(run_at) FROM windlass_jobs WHERE state = 'scheduled'
