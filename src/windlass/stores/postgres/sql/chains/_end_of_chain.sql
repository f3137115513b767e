-- How the chain of this job ends, which ends so.
CREATE OR REPLACE FUNCTION {schema}._end_of_chain(
  j {schema}._jobs, _state {schema}._job_state, _output json, _token bigint
) RETURNS {schema}._chain_end LANGUAGE sql IMMUTABLE
RETURN ROW(
  (j).chain,
  CASE _state
    WHEN 'completed' THEN 'completed' WHEN 'failed' THEN 'failed' ELSE 'cancelled'
  END::{schema}._chain_state,
  CASE WHEN _state = 'completed' THEN _output END,
  CASE WHEN _state = 'failed' THEN (j).last_error END,
  (j).step + 1, _token)::{schema}._chain_end;
