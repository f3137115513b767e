-- Revoke a token, unless it is revoked already.
-- Index expected: the primary key.
UPDATE windlass_tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL
