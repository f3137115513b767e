-- breaking: no
-- Schedules: what workers have in their crontabs, and how far each has been dealt with.

CREATE TABLE windlass_schedules (
  identifier TEXT PRIMARY KEY,
  schedule TEXT NOT NULL,
  known_since INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  floor_at INTEGER NOT NULL,
  last_at INTEGER,
  paused_at INTEGER
) STRICT, WITHOUT ROWID;
