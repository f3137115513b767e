-- Jobs that failed because of a chain, and which the caller has locked, wait for it again: unless another
-- chain that they wait for has failed, too, or the key of their own chain was taken. Answers the chains
-- of those that wait; the caller opens them, where it is not done.
CREATE OR REPLACE FUNCTION {schema}._restore(_jobs bigint[], _at timestamptz) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  taken record;
  stays bigint[] := '{}';
  over int8multirange;
  later bigint[];
  failed bigint[];
  opened bigint[];
BEGIN
  -- Of several whose chains have one key the first is put back before the others are looked at.
  later := ARRAY(
    SELECT x.id FROM (
      SELECT j.id, row_number() OVER (PARTITION BY c.tenant, c.key ORDER BY j.id) AS n
      FROM {schema}._jobs AS j
      JOIN {schema}._chains AS c ON c.id = j.chain AND c.key IS NOT NULL AND c.state <> 'open'
      WHERE j.id = ANY (_jobs)
    ) AS x WHERE x.n > 1
  );
  IF later <> '{}' THEN
    over := {schema}._spans(later);
    _jobs := ARRAY(SELECT x.id FROM unnest(_jobs) AS x (id) WHERE NOT over @> x.id);
  END IF;
  FOR taken IN
    SELECT j.id, c.id AS chain, format(
      'chain %s stays failed: its key ''%s'' belongs to chain %s now', c.id, c.key, r.id
    ) AS error
    FROM {schema}._jobs AS j
    JOIN {schema}._chains AS c ON c.id = j.chain AND c.state <> 'open'
    JOIN {schema}._chains AS r ON r.key = c.key AND r.tenant = c.tenant
      AND r.key IS NOT NULL AND r.state = 'open'
    WHERE j.id = ANY (_jobs)
  LOOP
    UPDATE {schema}._chains AS c SET error = taken.error WHERE c.id = taken.chain;
    UPDATE {schema}._jobs AS j SET
      last_error = taken.error,
      fingerprint = {schema}._fingerprint(j.tenant, j.task, taken.error)
    WHERE j.id = taken.id;
    stays := stays || taken.id;
  END LOOP;
  over := {schema}._spans(stays);
  _jobs := ARRAY(SELECT x.id FROM unnest(_jobs) AS x (id) WHERE NOT over @> x.id);
  UPDATE {schema}._jobs AS j SET last_error = NULL, finished_at = NULL, updated_at = _at
  WHERE j.id = ANY (_jobs);
  PERFORM {schema}._wait_again(_jobs);
  failed := {schema}._look_at_chains(_jobs, _at);
  IF failed <> '{}' THEN
    PERFORM {schema}._write_ends({schema}._ends_of(failed), _at);
  END IF;
  over := {schema}._spans(failed);
  opened := ARRAY(
    SELECT c.id FROM {schema}._jobs AS j JOIN {schema}._chains AS c ON c.id = j.chain
    WHERE j.id = ANY (_jobs) AND NOT over @> j.id AND c.state <> 'open'
  );
  IF later = '{}' THEN
    RETURN opened;
  END IF;
  PERFORM {schema}._open_chains(opened);
  RETURN opened || {schema}._restore(later, _at);
END $$;
