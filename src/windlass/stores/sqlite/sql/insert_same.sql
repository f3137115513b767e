-- Add jobs that differ only in their payload (objects or arrays), in the order given.
-- Index expected: none read.
INSERT INTO windlass_jobs (
  task, payload, state, priority, run_at, max_attempts, queue, flags, keep, created_at, updated_at
)
SELECT :task, value, :state, :priority, :run_at, :max_attempts, :queue, :flags, :keep, :now, :now
FROM json_each(:payloads)
