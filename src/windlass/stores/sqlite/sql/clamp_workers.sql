-- No worker's lease ends later than one lease from now.
-- Index expected: none; the workers table is tiny.
UPDATE windlass_workers SET expires_at = :ticks + lease WHERE expires_at > :ticks + lease
