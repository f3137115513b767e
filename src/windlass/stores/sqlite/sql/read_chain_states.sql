-- How far these chains are, and whose they are: [id, state, tenant] of each.
-- Index expected: the primary key.
SELECT CAST(json_group_array(json_array(c.id, c.state, c.tenant)) AS BLOB)
FROM json_each(:ids) AS i
CROSS JOIN windlass_chains AS c ON c.id = i.value
