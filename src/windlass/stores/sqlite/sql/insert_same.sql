-- Add jobs that differ only in their payload (objects or arrays), in the order given.
-- Index expected: none read.
INSERT INTO windlass_jobs ({carried}, state, run_at, created_at, updated_at)
SELECT {carried_given}, :state, :run_at, :now, :now
FROM json_each(:payloads)
