-- Resume a task or a queue.
-- Index expected: the primary key.
DELETE FROM windlass_paused WHERE kind = :kind AND name = :name
