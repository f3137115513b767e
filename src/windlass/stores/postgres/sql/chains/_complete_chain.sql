-- Complete the current job of a chain without a worker, whatever state it is in, and let the chain go on
-- with the job in `_nexts` (a group of one, as `_add_links` says) or end. `_inherits` are the fields that
-- the next job has from the current one. Answers the chain as it is then.
CREATE OR REPLACE FUNCTION {schema}._complete_chain(
  _id bigint, _output json, _keep float8, _nexts json, _inherits text[], _tenant text,
  _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  c {schema}._chains;
  j {schema}._jobs;
  jobs bigint[];
  kept float8;
BEGIN
  PERFORM {schema}._known_chains(ARRAY[_id], _tenant);
  jobs := {schema}._lock_chains(ARRAY[_id]);
  SELECT k.* INTO j FROM {schema}._jobs AS k WHERE k.id = ANY (jobs);
  SELECT k.* INTO c FROM {schema}._chains AS k WHERE k.id = _id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM {schema}._refuse_unknown(ARRAY[_id]);
  ELSIF c.state = 'completed' THEN
    RAISE EXCEPTION 'chain % is completed already', _id USING ERRCODE = 'WLCCL';
  END IF;
  IF _nexts IS NOT NULL THEN
    _nexts := {schema}._inherited(_nexts, j, _inherits, c.tenant);
    PERFORM {schema}._require_chains(_nexts);
    PERFORM {schema}._refuse_cycle(c, _nexts);
    PERFORM {schema}._check_key(_id);
    IF c.state <> 'open' THEN
      PERFORM {schema}._reopen(ARRAY[_id], at);
    END IF;
  END IF;
  IF j.id IS NOT NULL THEN
    DELETE FROM {schema}._jobs AS k WHERE k.id = j.id;
    kept := coalesce({schema}._span(j.keep), _keep);
    j.last_error := NULL;
    IF kept > 0 THEN
      j.keep := kept;
      j.token := NULL;
      PERFORM {schema}._file(j, _output, at);
    ELSIF j.blockers_total IS NOT NULL THEN
      PERFORM {schema}._drop_blockers(ARRAY[j.id]);
    END IF;
    IF {told j} THEN
      PERFORM {schema}._post_ends(ARRAY[j], ARRAY[_output], 'completed', at);
    END IF;
    PERFORM {schema}._ended(
      ARRAY[j.id], ARRAY[j.tenant], nullif(ARRAY[{schema}._freed(j)], '{NULL}'),
      CASE WHEN _nexts IS NULL THEN ARRAY[
        ROW(_id, 'completed', _output, NULL, j.step + 1, NULL)::{schema}._chain_end] END,
      at);
  ELSIF _nexts IS NULL THEN
    PERFORM {schema}._end_chains(ARRAY[
      ROW(_id, 'completed', _output, NULL, c.length, NULL)::{schema}._chain_end], at);
  END IF;
  IF _nexts IS NOT NULL THEN
    PERFORM {schema}._add_links(
      _nexts, ARRAY[nextval({sequence})], ARRAY[_id], ARRAY[coalesce(j.step + 1, c.length)],
      NULL, NULL, false, true, at);
  END IF;
  PERFORM pg_notify({channel}, '');
  RETURN {schema}._show_chains(ARRAY[_id]);
END $$;
