-- Keep a secret in place of the one that has its name, if any.
-- Index expected: the primary key.
INSERT INTO windlass_secrets (tenant, name, secret)
VALUES (:tenant, :name, :secret)
ON CONFLICT (tenant, name) DO UPDATE SET secret = excluded.secret
