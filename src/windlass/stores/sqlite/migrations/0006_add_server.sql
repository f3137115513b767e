-- breaking: yes
-- What a server keeps: tokens, known by their digests alone; secrets; and requests that may come
-- twice, with the jobs they stand for. An older program would complete jobs whose end is to be
-- posted, and post nothing, so it must not work on this file any more.

CREATE TABLE windlass_tokens (
  name TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  roles TEXT NOT NULL,
  tasks TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_tokens_digest ON windlass_tokens (digest);

CREATE TABLE windlass_secrets (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_requests (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  digest TEXT NOT NULL,
  jobs TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

-- What is pruned, the oldest first.
CREATE INDEX windlass_requests_asked ON windlass_requests (asked_at);
