-- Give chains that were just begun their keys: [offset, key, window] of each, from the id of the first.
-- Index expected: the primary key.
UPDATE windlass_chains
SET key = value ->> 1, key_window = value ->> 2
FROM json_each(:keys)
WHERE windlass_chains.id = :first + (value ->> 0)
