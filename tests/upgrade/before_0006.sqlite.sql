BEGIN TRANSACTION;
CREATE TABLE windlass_blockers (
  chain INTEGER NOT NULL,
  job INTEGER NOT NULL,
  place INTEGER NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (chain, job, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_blockers" VALUES(26,31,1,'met');
INSERT INTO "windlass_blockers" VALUES(27,31,0,'open');
INSERT INTO "windlass_blockers" VALUES(27,34,0,'open');
INSERT INTO "windlass_blockers" VALUES(28,32,0,'met');
INSERT INTO "windlass_blockers" VALUES(28,33,0,'failed');
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
INSERT INTO "windlass_chains" VALUES(26,'completed','',NULL,0,'plain','{"n":1}','{"last":"ü"}',NULL,2,1767225600000000,1767225600000000,4404465545141037459);
INSERT INTO "windlass_chains" VALUES(27,'open','','only',0,'plain','{}',NULL,NULL,1,1767225600000000,NULL,NULL);
INSERT INTO "windlass_chains" VALUES(28,'failed','',NULL,0,'plain','{}',NULL,'broke',1,1767225600000000,1767225600000000,484569647232862422);
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
, errors TEXT, tenant TEXT NOT NULL DEFAULT '', is_strict INTEGER NOT NULL DEFAULT 0, on_blocker_failure TEXT, chain INTEGER, step INTEGER, blockers_open INTEGER, blockers_total INTEGER) STRICT;
INSERT INTO "windlass_history" VALUES(6,'kept','{}',0,1767225600000000,2,2,NULL,'done','done',NULL,0,0,315360000.0,'first','{"out":1}','[0.5,"half"]','["said"]',1767225600000000,1767225600000000,1767225600000000,2082585600000000,'{"m":[1]}','[[1,1767225600000000,"w","first"]]','',0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_history" VALUES(17,'kept','{}',0,1767225602000000,1,1,NULL,NULL,NULL,NULL,0,0,315360000.0,NULL,'"theirs"',NULL,NULL,1767225602000000,1767225602000000,1767225602000000,2082585602000000,NULL,NULL,'acme',0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_history" VALUES(26,'plain','{"n":1}',-9,1767225600000000,1,1,NULL,NULL,NULL,NULL,0,0,1000000000.0,NULL,'"first"',NULL,NULL,1767225600000000,1767225600000000,1767225600000000,2767225600000000,'{"trace":"c"}',NULL,'',0,NULL,26,0,NULL,NULL);
INSERT INTO "windlass_history" VALUES(29,'keyed','{}',-9,1767225600000000,1,1,NULL,NULL,NULL,NULL,0,0,1000000000.0,NULL,'{"last":"ü"}',NULL,NULL,1767225600000000,1767225600000000,1767225600000000,2767225600000000,NULL,NULL,'',0,NULL,26,1,NULL,NULL);
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
, errors TEXT, tenant TEXT NOT NULL DEFAULT '', is_strict INTEGER NOT NULL DEFAULT 0, holds INTEGER NOT NULL DEFAULT 0, on_blocker_failure TEXT, chain INTEGER, step INTEGER, blockers_open INTEGER, blockers_total INTEGER) STRICT;
INSERT INTO "windlass_jobs" VALUES(1,'ready','{"a":1}','ready',-3,1767225600000000,0,0,7,NULL,NULL,'["x","y"]',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,'{"trace":"abc"}',NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(2,'scheduled','{}','scheduled',0,1767312000000000,0,0,NULL,'later',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(3,'line','[1]','waiting',0,1767225600000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(4,'line','[2]','waiting',1,1767225600000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(5,'keyed','[1,2,3]','ready',0,1767225600000000,0,0,NULL,'k',NULL,NULL,1,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(7,'failed','{}','failed',0,1767225600000000,2,2,NULL,'broken','after',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'it went wrong again',NULL,NULL,1767225600000000,1767225602000000,1767225602000000,NULL,'[[1,1767225600000000,"w","it went wrong"],[2,1767225602000000,"w","it went wrong again"]]','',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(8,'retry','{}','scheduled',0,1767312002000000,1,1,5,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'not yet',NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,'[[1,1767225602000000,"w","not yet"]]','',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(9,'cancelled','{}','cancelled',0,1767225602000000,0,0,NULL,'gone',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,1767225602000000,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(10,'suspect','{}','ready',0,1767225602000000,0,1,NULL,NULL,NULL,NULL,0,0,1,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(11,'retry','{"strict":1}','scheduled',0,1767229202000000,1,1,NULL,NULL,'held',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'hold on',NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,'[[1,1767225602000000,"w","hold on"]]','',1,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(12,'line','{"behind":1}','waiting',0,1767225602000000,0,0,NULL,NULL,'held',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',1,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(13,'plain','{"of":"acme"}','ready',0,1767225602000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'acme',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(14,'keyed','{}','ready',0,1767225602000000,0,0,NULL,'k',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'acme',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(15,'line','{}','ready',0,1767225602000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'acme',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(16,'line','{}','waiting',0,1767225602000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'acme',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(18,'cancelled','{}','cancelled',0,1767225602000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,1767225602000000,NULL,NULL,'acme',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(19,'running','{"r":1}','running',0,1767225602000000,1,1,NULL,NULL,'busy',NULL,0,0,0,0,0,1,2458096119211974343,NULL,NULL,NULL,NULL,'[0.25,"quarter"]',NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(20,'running','{"r":2}','waiting',0,1767225602000000,0,0,NULL,NULL,'busy',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(21,'stopping','{}','running',0,1767225602000000,1,1,NULL,NULL,NULL,NULL,0,0,0,0,1,1,2458096119211974345,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(22,'replaced','{}','running',0,1767225602000000,1,1,NULL,NULL,NULL,NULL,0,0,0,1,0,1,2458096119211974346,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(23,'replaced','{}','scheduled',0,1767229202000000,0,0,NULL,'r',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(24,'retry','{"again":true}','ready',0,1767225602000000,0,0,NULL,NULL,'after','["z"]',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(25,'retry','{"fired":1}','scheduled',0,1767312062000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225662000000,1767225662000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(28,'plain','{}','failed',-7,1767225600000000,1,1,1,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'broke',NULL,NULL,1767225600000000,1767225600000000,1767225600000000,NULL,'[[1,1767225600000000,"chains","broke"]]','',0,0,NULL,28,0,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(30,'line','{}','waiting',0,1767225600000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,27,1,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(31,'plain','{}','blocked',0,1767225600000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,NULL,NULL,NULL,1,2);
INSERT INTO "windlass_jobs" VALUES(32,'plain','{}','ready',0,1767225600000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,'run',NULL,NULL,0,1);
INSERT INTO "windlass_jobs" VALUES(33,'plain','{}','failed',0,1767225600000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'chain 28, which this job waited for, failed',NULL,NULL,1767225600000000,1767225600000000,1767225600000000,NULL,NULL,'',0,0,NULL,NULL,NULL,1,1);
INSERT INTO "windlass_jobs" VALUES(34,'plain','{}','blocked',0,1767225600000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL,'',0,0,'wait',NULL,NULL,1,1);
CREATE TABLE windlass_meta (
  key TEXT PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_meta" VALUES('breaking_version',5);
INSERT INTO "windlass_meta" VALUES('schema_version',5);
CREATE TABLE windlass_paused (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_paused" VALUES('','queue','q');
INSERT INTO "windlass_paused" VALUES('','task','ready');
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
INSERT INTO "windlass_schedules" VALUES('','fired','{"identifier":"fired","task":"retry","pattern":"* * * * *"}',1767225602000000,1767225602000000,1767225662000000,1767225662000000,NULL);
INSERT INTO "windlass_schedules" VALUES('','nightly','{"identifier":"nightly","task":"nightly","pattern":"0 4 * * *","tz":"Europe/Berlin","fill":86400.0,"payload":{"a":1}}',1767225602000000,1767225602000000,1767225602000000,NULL,NULL);
INSERT INTO "windlass_schedules" VALUES('','p','{"identifier":"p","task":"poll","pattern":"*/5 * * * *"}',1767225602000000,1767225602000000,1767225602000000,NULL,1767225602000000);
INSERT INTO "windlass_schedules" VALUES('acme','fired','{"identifier":"fired","task":"retry","pattern":"* * * * *"}',1767225602000000,1767225602000000,1767225602000000,NULL,NULL);
CREATE TABLE windlass_workers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  expires_at INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  tasks TEXT
, tenants TEXT) STRICT;
INSERT INTO "windlass_workers" VALUES(1,'w',1030000000,30000000,'["running","stopping"]',NULL);
INSERT INTO "windlass_workers" VALUES(2,'chains',1060000000,60000000,NULL,NULL);
CREATE INDEX windlass_jobs_scheduled ON windlass_jobs (run_at)
  WHERE state = 'scheduled';
CREATE INDEX windlass_jobs_running ON windlass_jobs (worker)
  WHERE state = 'running';
CREATE INDEX windlass_jobs_ended ON windlass_jobs (state)
  WHERE finished_at IS NOT NULL;
CREATE INDEX windlass_jobs_cancelled ON windlass_jobs (finished_at)
  WHERE state = 'cancelled';
CREATE INDEX windlass_history_expires ON windlass_history (expires_at);
CREATE INDEX windlass_jobs_ready ON windlass_jobs (task, priority, run_at)
  WHERE state = 'ready' AND tenant = '';
CREATE INDEX windlass_jobs_ready_others ON windlass_jobs (task, priority, run_at)
  WHERE tenant <> '' AND state = 'ready';
CREATE INDEX windlass_jobs_ready_tenant ON windlass_jobs (tenant, task, priority, run_at)
  WHERE tenant <> '' AND state = 'ready';
CREATE UNIQUE INDEX windlass_jobs_key ON windlass_jobs (key, tenant)
  WHERE key IS NOT NULL AND state <> 'cancelled';
CREATE UNIQUE INDEX windlass_jobs_active ON windlass_jobs (queue, tenant)
  WHERE queue IS NOT NULL AND (state = 'ready' OR state = 'running');
CREATE INDEX windlass_jobs_waiting ON windlass_jobs (queue, tenant, priority, run_at)
  WHERE state = 'waiting';
CREATE INDEX windlass_jobs_waiting_task ON windlass_jobs (task, tenant, queue, priority, run_at)
  WHERE state = 'waiting' AND queue IS NOT NULL;
CREATE INDEX windlass_jobs_holding ON windlass_jobs (queue, tenant, priority, run_at)
  WHERE holds = 1;
CREATE INDEX windlass_jobs_tenant ON windlass_jobs (tenant) WHERE tenant <> '';
CREATE INDEX windlass_jobs_ended_tenant ON windlass_jobs (tenant, state)
  WHERE tenant <> '' AND finished_at IS NOT NULL;
CREATE INDEX windlass_history_tenant ON windlass_history (tenant) WHERE tenant <> '';
CREATE UNIQUE INDEX windlass_jobs_chain ON windlass_jobs (chain) WHERE chain IS NOT NULL;
CREATE INDEX windlass_history_chain ON windlass_history (chain, step) WHERE chain IS NOT NULL;
CREATE INDEX windlass_jobs_blocked ON windlass_jobs (task) WHERE state = 'blocked';
CREATE UNIQUE INDEX windlass_chains_key ON windlass_chains (key, tenant)
  WHERE key IS NOT NULL AND state = 'open';
CREATE INDEX windlass_chains_key_ended ON windlass_chains (key, tenant, finished_at)
  WHERE key IS NOT NULL AND finished_at IS NOT NULL;
CREATE INDEX windlass_chains_task ON windlass_chains (task, state);
CREATE INDEX windlass_chains_tenant ON windlass_chains (tenant, state) WHERE tenant <> '';
CREATE INDEX windlass_chains_ended ON windlass_chains (state, finished_at, key_window)
  WHERE finished_at IS NOT NULL;
CREATE INDEX windlass_blockers_job ON windlass_blockers (job, place);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('windlass_jobs',34);
COMMIT;
