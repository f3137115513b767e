-- One remembered value.
-- Index expected: the primary key.
SELECT (SELECT value FROM windlass_meta WHERE key = :key)
