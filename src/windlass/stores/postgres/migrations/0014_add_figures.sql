-- breaking: no
-- What dashboards show: fingerprints of the errors of failed jobs, and a ring of rates.
--
-- A job that failed before has none, which counts as ''.

ALTER TABLE {schema}._jobs ADD COLUMN fingerprint text COLLATE "C";
ALTER TYPE {schema}._outcome ADD ATTRIBUTE fingerprint text;

-- Groups of errors, and the jobs of a group in the order of their ids.
CREATE INDEX _jobs_errors ON {schema}._jobs (coalesce(fingerprint, ''), id)
  INCLUDE (tenant, finished_at) WHERE state = 'failed';

-- Failed jobs are listed in the order of their ids, and cancelled ones forgotten in the order of their
-- ends.
DROP INDEX {schema}._jobs_ended;
CREATE INDEX _jobs_failed ON {schema}._jobs (id) WHERE state = 'failed';
CREATE INDEX _jobs_cancelled ON {schema}._jobs (finished_at) WHERE state = 'cancelled';

-- Jobs by key, those too of which there may be many.
CREATE INDEX _jobs_key_cancelled ON {schema}._jobs (key, id)
  WHERE key IS NOT NULL AND state = 'cancelled';
CREATE INDEX _history_key ON {schema}._history (key, id) WHERE key IS NOT NULL;

-- Jobs that wait for chains, in the order of their ids: what is counted and listed of them.
CREATE INDEX _jobs_blocked ON {schema}._jobs (id) WHERE state = 'blocked';

-- One row for each period (the instant at which it begins), task and tenant; the task '' is the sum of
-- all. The columns are those of `windlass.store.figures`. Rows are locked in the order of their key.
CREATE TABLE {schema}._rates (
  period timestamptz NOT NULL,
  ok bigint NOT NULL,
  retry bigint NOT NULL,
  failed bigint NOT NULL,
  poison bigint NOT NULL,
  cancelled bigint NOT NULL,
  abandoned bigint NOT NULL,
  lost bigint NOT NULL,
  waited bigint NOT NULL,
  ran bigint NOT NULL,
  wait_0 bigint NOT NULL,
  wait_1 bigint NOT NULL,
  wait_2 bigint NOT NULL,
  wait_3 bigint NOT NULL,
  wait_4 bigint NOT NULL,
  wait_5 bigint NOT NULL,
  wait_6 bigint NOT NULL,
  wait_7 bigint NOT NULL,
  wait_8 bigint NOT NULL,
  wait_9 bigint NOT NULL,
  run_0 bigint NOT NULL,
  run_1 bigint NOT NULL,
  run_2 bigint NOT NULL,
  run_3 bigint NOT NULL,
  run_4 bigint NOT NULL,
  run_5 bigint NOT NULL,
  run_6 bigint NOT NULL,
  run_7 bigint NOT NULL,
  run_8 bigint NOT NULL,
  run_9 bigint NOT NULL,
  task text NOT NULL,
  tenant text NOT NULL,
  CONSTRAINT _rates_pkey PRIMARY KEY (task, period, tenant)
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 5000
);

-- What was done in a period by each task; and what is pruned, the oldest first.
CREATE INDEX _rates_period ON {schema}._rates (period);
