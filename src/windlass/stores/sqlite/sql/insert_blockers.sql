-- What jobs name: [job, place, chain, state] of each.
-- Index expected: none read.
INSERT INTO windlass_blockers (job, place, chain, state)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
FROM json_each(:blockers)
