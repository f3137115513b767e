-- Write chains that are new or changed; each is a JSON array, a `records.ChainRow`. Those that end
-- come first, because their keys may be those of others that start. `WHERE true` tells SQLite that
-- ON begins no join.
-- Index expected: the primary key.
INSERT INTO windlass_chains ({chain})
SELECT {chain_of_row}
FROM json_each(:chains) WHERE true
ON CONFLICT (id) DO UPDATE SET {chain_updates}
