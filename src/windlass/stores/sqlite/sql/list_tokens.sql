-- All tokens by name, each as a JSON object.
-- Index expected: none; all are read.
SELECT CAST(json_group_array({token}) AS BLOB)
FROM (SELECT * FROM windlass_tokens ORDER BY name) AS t
