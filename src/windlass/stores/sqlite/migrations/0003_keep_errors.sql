-- breaking: yes
-- The last failed attempts of a job. The views go: statements make the JSON of a job themselves, from
-- the declaration of its fields.

DROP VIEW windlass_job_rows;
DROP VIEW windlass_history_rows;
ALTER TABLE windlass_jobs ADD COLUMN errors TEXT;
ALTER TABLE windlass_history ADD COLUMN errors TEXT;
