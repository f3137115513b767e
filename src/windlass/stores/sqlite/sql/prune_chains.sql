-- Remove chains that ended long enough ago, the oldest first.
-- Index expected: windlass_chains_ended, covering; the primary keys.
DELETE FROM windlass_chains WHERE id IN ({old_chains} LIMIT :limit)
