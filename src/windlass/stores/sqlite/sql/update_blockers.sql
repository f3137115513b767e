-- How jobs stand with chains that they named: [job, place, chain, state] of each.
-- Index expected: the primary key of windlass_blockers.
UPDATE windlass_blockers
SET state = value ->> 3
FROM json_each(:blockers) AS b
WHERE windlass_blockers.chain = b.value ->> 2
  AND windlass_blockers.job = b.value ->> 0
  AND windlass_blockers.place = b.value ->> 1
