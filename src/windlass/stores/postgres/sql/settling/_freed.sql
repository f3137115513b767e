-- The queue that goes on when this job leaves, given as the job was before; NULL where none does.
CREATE OR REPLACE FUNCTION {schema}._freed(j {schema}._jobs) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (j).state IN ('ready', 'running') OR (j).holds THEN (j).queue END;
