-- Pause a task or a queue.
-- Index expected: the primary key.
INSERT INTO windlass_paused (kind, name) VALUES (:kind, :name) ON CONFLICT DO NOTHING
