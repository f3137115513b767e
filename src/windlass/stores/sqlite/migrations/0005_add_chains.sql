-- breaking: yes
-- Chains and blockers. A chain's row is written when it starts and when it ends; in between only its
-- current job, the one in windlass_jobs, tells how far it is.

ALTER TABLE windlass_jobs ADD COLUMN on_blocker_failure TEXT;
ALTER TABLE windlass_jobs ADD COLUMN chain INTEGER;
ALTER TABLE windlass_jobs ADD COLUMN step INTEGER;
ALTER TABLE windlass_jobs ADD COLUMN blockers_open INTEGER;
ALTER TABLE windlass_jobs ADD COLUMN blockers_total INTEGER;
ALTER TABLE windlass_history ADD COLUMN on_blocker_failure TEXT;
ALTER TABLE windlass_history ADD COLUMN chain INTEGER;
ALTER TABLE windlass_history ADD COLUMN step INTEGER;
ALTER TABLE windlass_history ADD COLUMN blockers_open INTEGER;
ALTER TABLE windlass_history ADD COLUMN blockers_total INTEGER;

-- The guarantee that a chain never forks: it has one current job at most.
CREATE UNIQUE INDEX windlass_jobs_chain ON windlass_jobs (chain) WHERE chain IS NOT NULL;
CREATE INDEX windlass_history_chain ON windlass_history (chain, step) WHERE chain IS NOT NULL;

-- What is counted of jobs that wait for chains.
CREATE INDEX windlass_jobs_blocked ON windlass_jobs (task) WHERE state = 'blocked';

CREATE TABLE windlass_chains (
  id INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  tenant TEXT NOT NULL,
  key TEXT,
  key_window INTEGER NOT NULL,
  task TEXT NOT NULL,
  payload TEXT NOT NULL,
  output TEXT,
  error TEXT,
  length INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  ended_by INTEGER
) STRICT;

-- One open chain per key of a tenant, and the last one that ended.
CREATE UNIQUE INDEX windlass_chains_key ON windlass_chains (key, tenant)
  WHERE key IS NOT NULL AND state = 'open';
CREATE INDEX windlass_chains_key_ended ON windlass_chains (key, tenant, finished_at)
  WHERE key IS NOT NULL AND finished_at IS NOT NULL;

-- Lists, the newest first: of a task, or task by task; and of one tenant other than the default one.
CREATE INDEX windlass_chains_task ON windlass_chains (task, state);
CREATE INDEX windlass_chains_tenant ON windlass_chains (tenant, state) WHERE tenant <> '';

-- What is pruned, the oldest first.
CREATE INDEX windlass_chains_ended ON windlass_chains (state, finished_at, key_window)
  WHERE finished_at IS NOT NULL;

-- One row for each place in a job's list. The end of a chain finds those that name it, however many
-- others their jobs have named.
CREATE TABLE windlass_blockers (
  chain INTEGER NOT NULL,
  job INTEGER NOT NULL,
  place INTEGER NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (chain, job, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_blockers_job ON windlass_blockers (job, place);
