-- breaking: yes
-- Tenants own jobs, keys, queues, schedules and pauses; '' is the default tenant. Strict jobs hold
-- their queue while they wait for a retry, or have failed.
--
-- What a claim walks exists three times: for the default tenant, whose jobs are in one index and cost
-- what they did; for all others together; and for each of the others, so that a worker of one tenant
-- reads nothing of another's.

ALTER TABLE windlass_jobs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE windlass_jobs ADD COLUMN is_strict INTEGER NOT NULL DEFAULT 0;
ALTER TABLE windlass_jobs ADD COLUMN holds INTEGER NOT NULL DEFAULT 0;
ALTER TABLE windlass_history ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE windlass_history ADD COLUMN is_strict INTEGER NOT NULL DEFAULT 0;

DROP INDEX windlass_jobs_ready;
CREATE INDEX windlass_jobs_ready ON windlass_jobs (task, priority, run_at)
  WHERE state = 'ready' AND tenant = '';
CREATE INDEX windlass_jobs_ready_others ON windlass_jobs (task, priority, run_at)
  WHERE tenant <> '' AND state = 'ready';
CREATE INDEX windlass_jobs_ready_tenant ON windlass_jobs (tenant, task, priority, run_at)
  WHERE tenant <> '' AND state = 'ready';

-- One open job per key of a tenant.
DROP INDEX windlass_jobs_key;
CREATE UNIQUE INDEX windlass_jobs_key ON windlass_jobs (key, tenant)
  WHERE key IS NOT NULL AND state <> 'cancelled';

-- The serial-queue guarantee: at most one job of a queue is claimable or running.
DROP INDEX windlass_jobs_active;
CREATE UNIQUE INDEX windlass_jobs_active ON windlass_jobs (queue, tenant)
  WHERE queue IS NOT NULL AND (state = 'ready' OR state = 'running');

-- The next job of a queue, the next one of a task in it, and jobs that hold it. A waiting job
-- without a queue is parked: its task is paused for its tenant, and a claim has met it.
DROP INDEX windlass_jobs_waiting;
CREATE INDEX windlass_jobs_waiting ON windlass_jobs (queue, tenant, priority, run_at)
  WHERE state = 'waiting';
DROP INDEX windlass_jobs_waiting_task;
CREATE INDEX windlass_jobs_waiting_task ON windlass_jobs (task, tenant, queue, priority, run_at)
  WHERE state = 'waiting' AND queue IS NOT NULL;
CREATE INDEX windlass_jobs_holding ON windlass_jobs (queue, tenant, priority, run_at)
  WHERE holds = 1;

-- One tenant's jobs, in the order of their ids: all of them, and those that failed or were cancelled.
CREATE INDEX windlass_jobs_tenant ON windlass_jobs (tenant) WHERE tenant <> '';
CREATE INDEX windlass_jobs_ended_tenant ON windlass_jobs (tenant, state)
  WHERE tenant <> '' AND finished_at IS NOT NULL;
CREATE INDEX windlass_history_tenant ON windlass_history (tenant) WHERE tenant <> '';

-- NULL where it serves all tenants.
ALTER TABLE windlass_workers ADD COLUMN tenants TEXT;

-- Tables whose primary key begins with the tenant are made anew. They are not renamed, because a
-- rename fails where a view or trigger of the user's own is broken.
CREATE TEMP TABLE windlass_paused_before AS SELECT kind, name FROM main.windlass_paused;
DROP TABLE main.windlass_paused;
CREATE TABLE windlass_paused (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO windlass_paused (tenant, kind, name)
SELECT '', kind, name FROM temp.windlass_paused_before;
DROP TABLE temp.windlass_paused_before;

CREATE TEMP TABLE windlass_schedules_before AS SELECT * FROM main.windlass_schedules;
DROP TABLE main.windlass_schedules;
CREATE TABLE windlass_schedules (
  tenant TEXT NOT NULL,
  identifier TEXT NOT NULL,
  schedule TEXT NOT NULL,
  known_since INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  floor_at INTEGER NOT NULL,
  last_at INTEGER,
  paused_at INTEGER,
  PRIMARY KEY (tenant, identifier)
) STRICT, WITHOUT ROWID;
INSERT INTO windlass_schedules
  (tenant, identifier, schedule, known_since, seen_at, floor_at, last_at, paused_at)
SELECT '', identifier, schedule, known_since, seen_at, floor_at, last_at, paused_at
FROM temp.windlass_schedules_before;
DROP TABLE temp.windlass_schedules_before;
