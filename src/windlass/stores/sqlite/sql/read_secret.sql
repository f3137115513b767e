-- The secret of this name, or NULL.
-- Index expected: the primary key.
SELECT (SELECT secret FROM windlass_secrets WHERE tenant = :tenant AND name = :name)
