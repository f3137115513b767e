-- Keep a secret, unless there is one of its name.
-- Index expected: the primary key.
INSERT INTO windlass_secrets (tenant, name, secret)
VALUES (:tenant, :name, :secret)
ON CONFLICT (tenant, name) DO NOTHING
