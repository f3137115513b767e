-- Whether an operator may change this job: it neither runs nor is it over, unless it failed. Where
-- `batched` is NULL the caller has locked it with `_unbatch`.
CREATE OR REPLACE FUNCTION {schema}._is_open(j {schema}._jobs, batched int8multirange)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (j).state IN ({states_of_change}) AND (
  batched IS NULL OR {schema}._is_simple(j) AND NOT ({ready_undelivered (j)} AND batched @> (j).id)
);
