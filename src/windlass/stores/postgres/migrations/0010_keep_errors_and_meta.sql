-- breaking: yes
-- The last failed attempts of a job; and requests carry all that a job carries.

ALTER TABLE {schema}._jobs ADD COLUMN errors json;
ALTER TABLE {schema}._history ADD COLUMN errors json;

-- A server that crashes forgets how many dead rows it has counted. What few jobs leave in the history
-- must reach the threshold before that.
ALTER TABLE {schema}._history SET (autovacuum_vacuum_threshold = 500);

-- What a job is to be, and the mode of its key. The fields that a job carries come last, in their
-- order: so a new one is added here at the end, too.
DROP TYPE {schema}._request;
CREATE TYPE {schema}._request AS (
  due timestamptz,
  mode text,
  task text,
  payload json,
  queue text,
  max_attempts integer,
  key text,
  priority integer,
  flags text[],
  keep float8,
  meta jsonb
);
