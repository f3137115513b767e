-- What is paused: [tenant, kind, name] of each.
-- Index expected: the primary key.
SELECT CAST(json_group_array(json_array(tenant, kind, name)) AS BLOB) FROM windlass_paused
