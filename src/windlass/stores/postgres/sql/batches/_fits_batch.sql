-- Whether a claim may put this ready job into a batch. `_longer` are the leases of tasks that ask
-- for longer ones than the worker's, by their names.
CREATE OR REPLACE FUNCTION {schema}._fits_batch(j {schema}._jobs, _longer jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN {undelivered (j)} AND {plain (j)} AND NOT _longer ? (j).task;
