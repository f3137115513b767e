-- Whether a job is known at all, finished or not; or the chain that it was in.
-- Index expected: the primary keys.
SELECT EXISTS (SELECT 1 FROM windlass_jobs WHERE id = :id)
  OR EXISTS (SELECT 1 FROM windlass_history WHERE id = :id)
  OR EXISTS (SELECT 1 FROM windlass_chains WHERE id = :chain)
