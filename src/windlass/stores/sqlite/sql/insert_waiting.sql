-- Add jobs that have named chains, alike but for their payloads: each is [offset, payload, chain, step,
-- open, total]. The offset is from the id of the first; the chain is NULL, 0 for one that begins with
-- this job, or an id; `open` and `total` count the chains that it waits for and has named.
-- Index expected: none read; ids are above all that there were.
INSERT INTO windlass_jobs (
  id, {carried}, state, run_at, created_at, updated_at, chain, step, blockers_open, blockers_total
)
SELECT
  :first + (value ->> 0), {carried_given_beside},
  iif(value ->> 4 > 0, 'blocked', :state), :run_at, :now, :now,
  iif(value ->> 2 = 0, :first + (value ->> 0), value ->> 2), value ->> 3,
  value ->> 4, value ->> 5
FROM json_each(:rows)
