-- breaking: yes
-- What servers (`windlass serve`) must agree on. They are many, and hold no state of their own.

-- Keys to servers, known by their digests. A name is taken for good, whatever becomes of the token. `tasks`
-- is NULL where it is not bound to any.
CREATE TABLE {schema}._tokens (
  name text NOT NULL,
  digest text NOT NULL,
  tenant text NOT NULL,
  roles text[] NOT NULL,
  tasks text[],
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  CONSTRAINT _tokens_pkey PRIMARY KEY (name)
);
CREATE INDEX _tokens_digest ON {schema}._tokens (digest);

-- What only servers may know: what they sign with, and what they sign webhooks with, tenant by tenant.
CREATE TABLE {schema}._secrets (
  tenant text NOT NULL,
  name text NOT NULL,
  value text NOT NULL,
  CONSTRAINT _secrets_pkey PRIMARY KEY (tenant, name)
);

-- Requests that may come twice, under the idempotency keys of their tenants. `ids` are the jobs that one
-- stands for; it is NULL only while the transaction that writes the row adds them. `asked_by` is a
-- random number of the call that did. Rows are locked in the order of tenant and key, before any job.
CREATE TABLE {schema}._requests (
  asked_at timestamptz NOT NULL,
  asked_by bigint NOT NULL,
  tenant text NOT NULL,
  key text NOT NULL,
  digest text NOT NULL,
  ids bigint[],
  CONSTRAINT _requests_pkey PRIMARY KEY (tenant, key)
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.0,
  autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 5000,
  autovacuum_vacuum_cost_delay = 1
);

-- What pruning walks.
CREATE INDEX _requests_asked ON {schema}._requests (asked_at);
