-- breaking: no
-- What dashboards show: fingerprints of the errors of failed jobs, and a ring of rates.
--
-- A job that failed before has none, which counts as ''.

ALTER TABLE windlass_jobs ADD COLUMN fingerprint TEXT;

-- Groups of errors, and the jobs of a group in the order of their ids.
CREATE INDEX windlass_jobs_errors
  ON windlass_jobs (ifnull(fingerprint, ''), id, tenant, finished_at) WHERE state = 'failed';

-- Jobs by key, those too of which there may be many.
CREATE INDEX windlass_jobs_key_cancelled ON windlass_jobs (key)
  WHERE key IS NOT NULL AND state = 'cancelled';
CREATE INDEX windlass_history_key ON windlass_history (key) WHERE key IS NOT NULL;

-- One row for each period (the instant at which it begins), task and tenant; the task '' is the sum
-- of all. The columns are those of `windlass.store.figures`.
CREATE TABLE windlass_rates (
  task TEXT NOT NULL,
  period INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  ok INTEGER NOT NULL,
  retry INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  poison INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  abandoned INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  waited INTEGER NOT NULL,
  ran INTEGER NOT NULL,
  wait_0 INTEGER NOT NULL,
  wait_1 INTEGER NOT NULL,
  wait_2 INTEGER NOT NULL,
  wait_3 INTEGER NOT NULL,
  wait_4 INTEGER NOT NULL,
  wait_5 INTEGER NOT NULL,
  wait_6 INTEGER NOT NULL,
  wait_7 INTEGER NOT NULL,
  wait_8 INTEGER NOT NULL,
  wait_9 INTEGER NOT NULL,
  run_0 INTEGER NOT NULL,
  run_1 INTEGER NOT NULL,
  run_2 INTEGER NOT NULL,
  run_3 INTEGER NOT NULL,
  run_4 INTEGER NOT NULL,
  run_5 INTEGER NOT NULL,
  run_6 INTEGER NOT NULL,
  run_7 INTEGER NOT NULL,
  run_8 INTEGER NOT NULL,
  run_9 INTEGER NOT NULL,
  PRIMARY KEY (task, period, tenant)
) STRICT, WITHOUT ROWID;

-- What was done in a period by each task; and what is pruned, the oldest first.
CREATE INDEX windlass_rates_period ON windlass_rates (period);
