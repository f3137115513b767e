-- What is paused: [kind, name], by name.
-- Index expected: the primary key.
SELECT CAST(json_group_array(json_array(kind, name)) AS BLOB)
FROM (SELECT kind, name FROM windlass_paused ORDER BY kind, name)
