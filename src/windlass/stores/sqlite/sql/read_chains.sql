-- Chains by id; each is a `records.ChainRow`.
-- Index expected: the primary key.
SELECT CAST(json_group_array({chain_row}) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_chains AS c ON c.id = i.value
