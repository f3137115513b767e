-- Take the write lock: it changes nothing.
-- Index expected: the primary key.
UPDATE windlass_meta SET value = value WHERE key = ''
