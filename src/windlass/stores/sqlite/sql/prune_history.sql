-- Remove kept jobs whose time is over, the oldest first.
-- Index expected: windlass_history_expires, covering.
DELETE FROM windlass_history
WHERE id IN (
  SELECT id FROM windlass_history WHERE expires_at <= :now ORDER BY expires_at, id LIMIT :limit
)
