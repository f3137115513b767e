-- The token of this name as a JSON object, in an array that is empty if there is none.
-- Index expected: the primary key.
SELECT CAST(json_group_array({token}) AS BLOB)
FROM windlass_tokens AS t
WHERE t.name = :name
