-- Whether an operator may change this job: it neither runs nor is it over, unless it failed. Where
-- `held` is NULL the caller has locked it with `_unbatch`.
CREATE OR REPLACE FUNCTION {schema}._is_open(j {schema}._jobs, held int8multirange) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).state IN ('scheduled', 'waiting', 'ready', 'failed') AND (
  held IS NULL
  OR {schema}._is_simple(j) AND ((j).state <> 'ready' OR (j).deliveries > 0 OR NOT held @> (j).id)
);
