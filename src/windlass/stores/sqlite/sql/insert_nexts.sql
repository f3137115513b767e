-- Add jobs with which chains go on, alike but for their payloads: each is [offset, payload, chain, step].
-- The offset is from the id of the first.
-- Index expected: none read; ids are above all that there were.
INSERT INTO windlass_jobs (id, {carried}, state, run_at, created_at, updated_at, chain, step)
SELECT
  :first + (value ->> 0), {carried_given_beside}, :state, :run_at, :now, :now,
  value ->> 2, value ->> 3
FROM json_each(:rows)
