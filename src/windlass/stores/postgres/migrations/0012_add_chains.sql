-- breaking: yes
-- Chains, and the jobs that wait for them.
--
-- A chain is a row from when it starts, or from when a job of no chain goes on; it is written then and
-- when it ends, never in between. Only a transaction that has locked its current job changes it: the
-- one of its jobs that is in `_jobs`, the one with the highest `step`. The others are completed.
--
-- A blocker is a row for each place in the list of chains that a job named. A transaction that turns one
-- has locked the job before; each is turned from 'open' once, so each chain is counted down once. While
-- `blockers_open` is above zero the job is 'blocked'.
--
-- Locks are taken in this order: the jobs that a call is about, their chains, jobs that wait for these
-- chains. The last are never waited for: one that is locked gets a bell, and a claim tells it.

CREATE TYPE {schema}._chain_state AS ENUM ('open', 'completed', 'failed', 'cancelled');
CREATE TYPE {schema}._blocker_state AS ENUM ('open', 'met', 'failed');
CREATE TYPE {schema}._on_failure AS ENUM ('fail', 'run', 'wait');

ALTER TABLE {schema}._jobs
  ADD COLUMN chain bigint,
  ADD COLUMN step integer,
  ADD COLUMN blockers_open integer,
  ADD COLUMN blockers_total integer,
  ADD COLUMN on_blocker_failure {schema}._on_failure;
ALTER TABLE {schema}._history
  ADD COLUMN chain bigint,
  ADD COLUMN step integer,
  ADD COLUMN blockers_open integer,
  ADD COLUMN blockers_total integer,
  ADD COLUMN on_blocker_failure {schema}._on_failure;

-- The jobs of a chain. The current one is the last: entries of those before it, which stay until vacuum
-- may remove them, are not read.
CREATE INDEX _jobs_chain ON {schema}._jobs (chain, step) WHERE chain IS NOT NULL;
CREATE INDEX _history_chain ON {schema}._history (chain, step) WHERE chain IS NOT NULL;

-- `length` is true once the chain has ended. `openings` is how often it was opened again after an end.
-- `key_window` is in microseconds. `ended_by` is the token of
-- the delivery that ended it. `aged_at` is where its keeping time begins: when it ended, or later where
-- it was looked at by `_prune_chains` and had to be left.
CREATE TABLE {schema}._chains (
  id bigint NOT NULL,
  created_at timestamptz NOT NULL,
  finished_at timestamptz,
  aged_at timestamptz,
  ended_by bigint,
  key_window bigint,
  state {schema}._chain_state NOT NULL DEFAULT 'open',
  length integer NOT NULL DEFAULT 1,
  openings integer NOT NULL DEFAULT 0,
  tenant text NOT NULL DEFAULT '',
  task text NOT NULL,
  payload json NOT NULL,
  key text,
  output json,
  error text,
  CONSTRAINT _chains_pkey PRIMARY KEY (id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.0,
  autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 5000,
  autovacuum_vacuum_cost_delay = 1
);

-- One open chain for each key of a tenant, and the chains of a key that have ended.
CREATE UNIQUE INDEX _chains_key ON {schema}._chains (key, tenant)
  WHERE key IS NOT NULL AND state = 'open';
CREATE INDEX _chains_key_ended ON {schema}._chains (key, tenant, finished_at)
  WHERE key IS NOT NULL AND state <> 'open';

-- Pages of chains, the newest first: of a task, of a tenant; of a state task by task.
CREATE INDEX _chains_task ON {schema}._chains (task, state, id);
CREATE INDEX _chains_tenant ON {schema}._chains (tenant, state, id) WHERE tenant <> '';

-- What pruning walks.
CREATE INDEX _chains_ended ON {schema}._chains (state, aged_at) WHERE state <> 'open';

-- `state` is in no index, and pages are left half empty: so turning a row writes no entry. `openings` is
-- that of the chain, in a row that is 'failed': so it is known whether the chain was opened since.
CREATE TABLE {schema}._blockers (
  job bigint NOT NULL,
  chain bigint NOT NULL,
  place integer NOT NULL,
  state {schema}._blocker_state NOT NULL DEFAULT 'open',
  openings integer,
  CONSTRAINT _blockers_pkey PRIMARY KEY (job, place)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.0,
  autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 5000,
  autovacuum_vacuum_cost_delay = 1
);

-- The jobs that named a chain, and how one of them stands with it.
CREATE INDEX _blockers_chain ON {schema}._blockers (chain, job);

-- A bell without a queue is about a job, a chain, or both. With a job alone: look at every chain that it
-- waits for. With both: look at this one, which could not be done when it ended. With a chain alone: it
-- has ended, and the jobs that named it, from the one after `after` on, are still to be told.
ALTER TABLE {schema}._bells
  ALTER COLUMN queue DROP NOT NULL,
  ADD COLUMN job bigint,
  ADD COLUMN chain bigint,
  ADD COLUMN after bigint,
  ADD COLUMN rung_at timestamptz;

ALTER TYPE {schema}._request ADD ATTRIBUTE on_blocker_failure {schema}._on_failure;

-- How a chain ends. `token` is that of the delivery by which it does.
CREATE TYPE {schema}._chain_end AS (
  chain bigint,
  state {schema}._chain_state,
  output json,
  error text,
  length integer,
  token bigint
);

-- What the public functions return: the columns of the view `chains`.
CREATE TYPE {schema}.chain AS (
  id bigint,
  task_identifier text,
  state text,
  length integer,
  key text,
  output json,
  error text,
  created_at timestamptz,
  finished_at timestamptz
);
