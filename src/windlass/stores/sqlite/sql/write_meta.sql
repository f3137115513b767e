-- Remember one value.
-- Index expected: the primary key.
INSERT INTO windlass_meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
