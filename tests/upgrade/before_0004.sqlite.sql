BEGIN TRANSACTION;
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
, errors TEXT) STRICT;
INSERT INTO "windlass_history" VALUES(6,'kept','{}',0,1767225600000000,2,2,NULL,'done','done',NULL,0,0,315360000.0,'first','{"out":1}','[0.5,"half"]','["said"]',1767225600000000,1767225600000000,1767225600000000,2082585600000000,'{"m":[1]}','[[1,1767225600000000,"w","first"]]');
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
, errors TEXT) STRICT;
INSERT INTO "windlass_jobs" VALUES(1,'ready','{"a":1}','ready',-3,1767225600000000,0,0,7,NULL,NULL,'["x","y"]',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,'{"trace":"abc"}',NULL);
INSERT INTO "windlass_jobs" VALUES(2,'scheduled','{}','scheduled',0,1767312000000000,0,0,NULL,'later',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(3,'line','[1]','waiting',0,1767225600000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(4,'line','[2]','waiting',1,1767225600000000,0,0,NULL,NULL,'q',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(5,'keyed','[1,2,3]','ready',0,1767225600000000,0,0,NULL,'k',NULL,NULL,1,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225600000000,1767225600000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(7,'failed','{}','failed',0,1767225600000000,2,2,NULL,'broken','after',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'it went wrong again',NULL,NULL,1767225600000000,1767225602000000,1767225602000000,NULL,'[[1,1767225600000000,"w","it went wrong"],[2,1767225602000000,"w","it went wrong again"]]');
INSERT INTO "windlass_jobs" VALUES(8,'retry','{}','scheduled',0,1767312002000000,1,1,5,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,'not yet',NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,'[[1,1767225602000000,"w","not yet"]]');
INSERT INTO "windlass_jobs" VALUES(9,'cancelled','{}','cancelled',0,1767225602000000,0,0,NULL,'gone',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,1767225602000000,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(10,'suspect','{}','ready',0,1767225602000000,0,1,NULL,NULL,NULL,NULL,0,0,1,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(11,'running','{"r":1}','running',0,1767225602000000,1,1,NULL,NULL,'busy',NULL,0,0,0,0,0,1,1175756603116548856,1602000000,600000000,NULL,NULL,'[0.25,"quarter"]',NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(12,'running','{"r":2}','waiting',0,1767225602000000,0,0,NULL,NULL,'busy',NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(13,'stopping','{}','running',0,1767225602000000,1,1,NULL,NULL,NULL,NULL,0,0,0,0,1,1,2598924551965734080,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(14,'replaced','{}','running',0,1767225602000000,1,1,NULL,NULL,NULL,NULL,0,0,0,1,0,1,68955063917644558,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(15,'replaced','{}','scheduled',0,1767229202000000,0,0,NULL,'r',NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(16,'retry','{"again":true}','ready',0,1767225602000000,0,0,NULL,NULL,'after','["z"]',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,1767225602000000,NULL,NULL,NULL);
INSERT INTO "windlass_jobs" VALUES(17,'retry','{"fired":1}','scheduled',0,1767312062000000,0,0,NULL,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225662000000,1767225662000000,NULL,NULL,NULL);
CREATE TABLE windlass_meta (
  key TEXT PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_meta" VALUES('breaking_version',3);
INSERT INTO "windlass_meta" VALUES('schema_version',3);
CREATE TABLE windlass_paused (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_paused" VALUES('queue','q');
INSERT INTO "windlass_paused" VALUES('task','ready');
CREATE TABLE windlass_schedules (
  identifier TEXT PRIMARY KEY,
  schedule TEXT NOT NULL,
  known_since INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  floor_at INTEGER NOT NULL,
  last_at INTEGER,
  paused_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "windlass_schedules" VALUES('fired','{"identifier":"fired","task":"retry","pattern":"* * * * *"}',1767225602000000,1767225602000000,1767225662000000,1767225662000000,NULL);
INSERT INTO "windlass_schedules" VALUES('nightly','{"identifier":"nightly","task":"nightly","pattern":"0 4 * * *","tz":"Europe/Berlin","fill":86400.0,"payload":{"a":1}}',1767225602000000,1767225602000000,1767225602000000,NULL,NULL);
INSERT INTO "windlass_schedules" VALUES('p','{"identifier":"p","task":"poll","pattern":"*/5 * * * *"}',1767225602000000,1767225602000000,1767225602000000,NULL,1767225602000000);
CREATE TABLE windlass_workers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  expires_at INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  tasks TEXT
) STRICT;
INSERT INTO "windlass_workers" VALUES(1,'w',1030000000,30000000,'["running","stopping"]');
CREATE INDEX windlass_jobs_ready ON windlass_jobs (task, priority, run_at)
  WHERE state = 'ready';
CREATE INDEX windlass_jobs_scheduled ON windlass_jobs (run_at)
  WHERE state = 'scheduled';
CREATE INDEX windlass_jobs_running ON windlass_jobs (worker)
  WHERE state = 'running';
CREATE UNIQUE INDEX windlass_jobs_key ON windlass_jobs (key)
  WHERE key IS NOT NULL AND state <> 'cancelled';
CREATE UNIQUE INDEX windlass_jobs_active ON windlass_jobs (queue)
  WHERE queue IS NOT NULL AND (state = 'ready' OR state = 'running');
CREATE INDEX windlass_jobs_waiting ON windlass_jobs (queue, priority, run_at)
  WHERE state = 'waiting';
CREATE INDEX windlass_jobs_waiting_task ON windlass_jobs (task, queue, priority, run_at)
  WHERE state = 'waiting';
CREATE INDEX windlass_jobs_ended ON windlass_jobs (state)
  WHERE finished_at IS NOT NULL;
CREATE INDEX windlass_jobs_cancelled ON windlass_jobs (finished_at)
  WHERE state = 'cancelled';
CREATE INDEX windlass_history_expires ON windlass_history (expires_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('windlass_jobs',17);
COMMIT;
