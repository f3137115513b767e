-- What waiting jobs named of these chains, which have completed, is met.
-- Index expected: the primary keys.
UPDATE windlass_blockers
SET state = 'met'
WHERE chain IN (SELECT value FROM json_each(:chains)) AND state = 'open'
  AND EXISTS (SELECT 1 FROM windlass_jobs AS j WHERE j.id = job AND j.state = 'blocked')
