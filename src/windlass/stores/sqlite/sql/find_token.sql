-- The token with this digest as a JSON object, in an array that is empty if there is none.
-- Index expected: windlass_tokens_digest.
SELECT CAST(json_group_array({token}) AS BLOB)
FROM windlass_tokens AS t
WHERE t.digest = :digest
