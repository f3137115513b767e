-- What names these chains: [job, place, chain, state] of each.
-- Index expected: the primary key of windlass_blockers.
SELECT CAST(json_group_array(json_array(b.job, b.place, b.chain, b.state)) AS BLOB)
FROM json_each(:chains) AS i
CROSS JOIN windlass_blockers AS b ON b.chain = i.value
