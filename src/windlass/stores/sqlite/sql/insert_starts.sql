-- Add first jobs of chains that are alike but for their payloads: each is [offset, payload]. The offset
-- is from the id of the first.
-- Index expected: none read; ids are above all that there were.
INSERT INTO windlass_jobs (id, {carried}, state, run_at, created_at, updated_at, chain, step)
SELECT
  :first + (value ->> 0), {carried_given_beside}, :state, :run_at, :now, :now,
  :first + (value ->> 0), 0
FROM json_each(:rows)
