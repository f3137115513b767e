-- What jobs name that were just added, as [offset, [chain, …]]: offsets are from the id of the first,
-- the chains are ids after :base. Those among :met have ended well. A list may be long, so it is taken
-- apart once.
-- Index expected: none read.
WITH named (job, chains) AS MATERIALIZED (
  SELECT :first + (value ->> 0), value -> 1 FROM json_each(:rows)
)
INSERT INTO windlass_blockers (job, place, chain, state)
SELECT
  n.job, b.key, :base + b.value,
  iif(b.value IN (SELECT value FROM json_each(:met)), 'met', 'open')
FROM named AS n
CROSS JOIN json_each(n.chains) AS b
