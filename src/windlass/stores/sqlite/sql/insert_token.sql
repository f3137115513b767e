-- Keep a token, unless its name is taken.
-- Index expected: the primary key.
INSERT INTO windlass_tokens
  (name, digest, tenant, roles, tasks, created_at, expires_at, revoked_at)
VALUES (:name, :digest, :tenant, :roles, :tasks, :created_at, :expires_at, :revoked_at)
ON CONFLICT (name) DO NOTHING
