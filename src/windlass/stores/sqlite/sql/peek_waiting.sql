-- Whether any job waits in a queue, behind its head or without one.
-- Index expected: windlass_jobs_waiting_task, covering.
SELECT EXISTS (
  SELECT 1 FROM windlass_jobs WHERE state = 'waiting' AND queue IS NOT NULL AND task >= ''
)
