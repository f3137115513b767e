-- breaking: yes
-- Jobs, workers, history, pauses, and what the store remembers about itself.
--
-- `state` has one value users never see: 'waiting' is a ready job behind its serial queue. Each
-- partial index holds only the rows it serves, so that future, waiting, foreign and dead jobs
-- cost a claim nothing. Instants are microseconds since 1970 (UTC), but for the ends of leases
-- (`expires_at` of workers, `lease_until`): these are microseconds of the machine's monotonic clock.

CREATE TABLE IF NOT EXISTS windlass_meta (
  key TEXT PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task TEXT NOT NULL,
  payload TEXT NOT NULL,
  state TEXT NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  run_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  deliveries INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER,
  key TEXT,
  queue TEXT,
  flags TEXT,
  revision INTEGER NOT NULL DEFAULT 0,
  resets INTEGER NOT NULL DEFAULT 0,
  suspect INTEGER NOT NULL DEFAULT 0,
  superseded INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  worker INTEGER,
  token INTEGER,
  lease_until INTEGER,
  own_lease INTEGER,
  keep REAL,
  last_error TEXT,
  progress TEXT,
  log TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  finished_at INTEGER,
  meta TEXT
) STRICT;

-- What a claim walks.
CREATE INDEX windlass_jobs_ready ON windlass_jobs (task, priority, run_at)
  WHERE state = 'ready';

-- What the timer walks.
CREATE INDEX windlass_jobs_scheduled ON windlass_jobs (run_at)
  WHERE state = 'scheduled';

-- What a dead worker held.
CREATE INDEX windlass_jobs_running ON windlass_jobs (worker)
  WHERE state = 'running';

-- One open job per key.
CREATE UNIQUE INDEX windlass_jobs_key ON windlass_jobs (key)
  WHERE key IS NOT NULL AND state <> 'cancelled';

-- The serial-queue guarantee: at most one job of a queue is claimable or running.
CREATE UNIQUE INDEX windlass_jobs_active ON windlass_jobs (queue)
  WHERE queue IS NOT NULL AND (state = 'ready' OR state = 'running');

-- The next job of a queue, and the next one of a task in it.
CREATE INDEX windlass_jobs_waiting ON windlass_jobs (queue, priority, run_at)
  WHERE state = 'waiting';
CREATE INDEX windlass_jobs_waiting_task ON windlass_jobs (task, queue, priority, run_at)
  WHERE state = 'waiting';

-- Failed and cancelled jobs, in the order of their ids.
CREATE INDEX windlass_jobs_ended ON windlass_jobs (state)
  WHERE finished_at IS NOT NULL;
CREATE INDEX windlass_jobs_cancelled ON windlass_jobs (finished_at)
  WHERE state = 'cancelled';

CREATE TABLE windlass_workers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  expires_at INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  tasks TEXT
) STRICT;

CREATE TABLE windlass_history (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  payload TEXT NOT NULL,
  priority INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  max_attempts INTEGER,
  key TEXT,
  queue TEXT,
  flags TEXT,
  revision INTEGER NOT NULL,
  resets INTEGER NOT NULL,
  keep REAL,
  last_error TEXT,
  output TEXT,
  progress TEXT,
  log TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  meta TEXT
) STRICT;

CREATE INDEX windlass_history_expires ON windlass_history (expires_at);

CREATE TABLE windlass_paused (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- A job as one JSON array, in the order of `rows.Row`; `row` costs nothing where not selected.
CREATE VIEW windlass_job_rows AS
SELECT
  id, task, state, queue, key, worker, finished_at,
  json_array(
    id, task, payload, iif(state = 'waiting', 'ready', state), priority, run_at, attempts,
    deliveries, max_attempts, key, queue, json(flags), revision, resets, suspect, superseded,
    cancel_requested, (SELECT name FROM windlass_workers AS w WHERE w.id = worker), token,
    lease_until, keep, last_error, NULL, progress, log, created_at, updated_at, finished_at
  ) AS row
FROM windlass_jobs;

CREATE VIEW windlass_history_rows AS
SELECT
  id, task, queue, key,
  json_array(
    id, task, payload, 'completed', priority, run_at, attempts,
    deliveries, max_attempts, key, queue, json(flags), revision, resets, 0, 0,
    0, NULL, NULL,
    NULL, keep, last_error, output, progress, log, created_at, updated_at, finished_at
  ) AS row
FROM windlass_history;
