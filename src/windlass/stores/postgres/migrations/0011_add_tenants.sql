-- breaking: yes
-- Tenants own jobs, keys, queues, schedules and pauses; '' is the default tenant. Strict jobs hold
-- their queue while they wait for a retry, or have failed.
--
-- What a claim walks exists three times: for the default tenant, whose jobs are in one index and cost
-- what they did; for all others together; and for each of the others, so that a worker of one tenant
-- reads nothing of another's. `tenant > ''` and `tenant <> ''` mean the same, and the planner takes
-- neither for the other where the tenant is given: so each statement gets the index it names.

ALTER TABLE {schema}._jobs
  ADD COLUMN tenant text NOT NULL DEFAULT '',
  ADD COLUMN is_strict boolean NOT NULL DEFAULT false,
  ADD COLUMN holds boolean NOT NULL DEFAULT false;
ALTER TABLE {schema}._history
  ADD COLUMN tenant text NOT NULL DEFAULT '',
  ADD COLUMN is_strict boolean NOT NULL DEFAULT false;

DROP INDEX {schema}._jobs_ready;
CREATE INDEX _jobs_ready ON {schema}._jobs (task, priority, run_at, id)
  WHERE state = 'ready' AND NOT suspect AND tenant = '';
CREATE INDEX _jobs_ready_others ON {schema}._jobs (task, priority, run_at, id)
  WHERE state = 'ready' AND NOT suspect AND tenant > '';
CREATE INDEX _jobs_ready_tenant ON {schema}._jobs (tenant, task, priority, run_at, id)
  WHERE state = 'ready' AND NOT suspect AND tenant <> '';

DROP INDEX {schema}._jobs_suspect;
CREATE INDEX _jobs_suspect ON {schema}._jobs (priority, run_at, id)
  WHERE state = 'ready' AND suspect AND tenant = '';
CREATE INDEX _jobs_suspect_others ON {schema}._jobs (priority, run_at, id)
  WHERE state = 'ready' AND suspect AND tenant > '';
CREATE INDEX _jobs_suspect_tenant ON {schema}._jobs (tenant, priority, run_at, id)
  WHERE state = 'ready' AND suspect AND tenant <> '';

-- One open job per key of a tenant.
DROP INDEX {schema}._jobs_key;
CREATE UNIQUE INDEX _jobs_key ON {schema}._jobs (key, tenant)
  WHERE key IS NOT NULL AND state <> 'cancelled';

-- The serial-queue guarantee: at most one job of a queue is claimable or running.
DROP INDEX {schema}._jobs_active;
CREATE UNIQUE INDEX _jobs_active ON {schema}._jobs (queue, tenant)
  WHERE queue IS NOT NULL AND state IN ('ready', 'running');

-- The next job of a queue, the next one of a task in it, and jobs that hold it.
DROP INDEX {schema}._jobs_waiting;
CREATE INDEX _jobs_waiting ON {schema}._jobs (queue, tenant, priority, run_at, id)
  WHERE state = 'waiting' AND queue IS NOT NULL;
DROP INDEX {schema}._jobs_waiting_task;
CREATE INDEX _jobs_waiting_task ON {schema}._jobs (task, tenant, queue, priority, run_at, id)
  WHERE state = 'waiting' AND queue IS NOT NULL;
CREATE INDEX _jobs_holding ON {schema}._jobs (queue, tenant, priority, run_at, id)
  WHERE holds;

-- A waiting job without a queue is parked: its task is paused for its tenant, and a claim has met it.
CREATE INDEX _jobs_parked ON {schema}._jobs (task, tenant)
  WHERE state = 'waiting' AND queue IS NULL;

-- Pages of one tenant's jobs.
CREATE INDEX _jobs_tenant ON {schema}._jobs (tenant, id) WHERE tenant <> '';
CREATE INDEX _history_tenant ON {schema}._history (tenant, id) WHERE tenant <> '';

ALTER TABLE {schema}._bells ADD COLUMN tenant text NOT NULL DEFAULT '';
ALTER TABLE {schema}._bells DROP CONSTRAINT _bells_pkey;
CREATE UNIQUE INDEX _bells_default ON {schema}._bells (n) WHERE tenant = '';
CREATE UNIQUE INDEX _bells_others ON {schema}._bells (n) WHERE tenant > '';
CREATE INDEX _bells_tenant ON {schema}._bells (tenant, n) WHERE tenant <> '';

-- NULL where it serves all tenants.
ALTER TABLE {schema}._workers ADD COLUMN tenants text[];

ALTER TABLE {schema}._paused
  ADD COLUMN tenant text NOT NULL DEFAULT '',
  DROP CONSTRAINT _paused_pkey,
  ADD CONSTRAINT _paused_pkey PRIMARY KEY (tenant, kind, name);

ALTER TABLE {schema}._schedules
  ADD COLUMN tenant text NOT NULL DEFAULT '',
  DROP CONSTRAINT _schedules_pkey,
  ADD CONSTRAINT _schedules_pkey PRIMARY KEY (tenant, identifier);

ALTER TYPE {schema}._request ADD ATTRIBUTE tenant text;
ALTER TYPE {schema}._request ADD ATTRIBUTE is_strict boolean;
ALTER TYPE {schema}.job ADD ATTRIBUTE tenant text;
