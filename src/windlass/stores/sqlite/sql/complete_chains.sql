-- Chains whose last jobs have completed, given as [chain, output, length, token].
-- Index expected: the primary key.
UPDATE windlass_chains
SET
  state = 'completed', output = value ->> 1, error = NULL, length = value ->> 2,
  finished_at = :now, ended_by = value ->> 3
FROM json_each(:ended)
WHERE windlass_chains.id = value ->> 0 AND windlass_chains.state = 'open'
