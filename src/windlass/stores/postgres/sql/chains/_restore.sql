-- Jobs that failed because of a chain, and which the caller has locked, wait for it again: unless another
-- chain that they wait for has failed, too, or the key of their own chain was taken. Answers the chains
-- of those that wait; the caller opens them.
CREATE OR REPLACE FUNCTION {schema}._restore(_jobs bigint[], _at timestamptz) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  taken record;
  stays bigint[] := '{}';
  over int8multirange;
BEGIN
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
    UPDATE {schema}._jobs AS j SET last_error = taken.error WHERE j.id = taken.id;
    stays := stays || taken.id;
  END LOOP;
  over := {schema}._spans(stays);
  _jobs := ARRAY(SELECT x.id FROM unnest(_jobs) AS x (id) WHERE NOT over @> x.id);
  PERFORM {schema}._ring(array_agg(j.tenant), array_agg(j.queue))
  FROM {schema}._jobs AS j WHERE j.id = ANY (_jobs) AND j.holds;
  UPDATE {schema}._jobs AS j SET
    last_error = NULL, finished_at = NULL, holds = false, updated_at = _at
  WHERE j.id = ANY (_jobs);
  PERFORM {schema}._wait_again(_jobs);
  over := {schema}._spans({schema}._look_at_chains(_jobs, _at));
  RETURN ARRAY(
    SELECT c.id FROM {schema}._jobs AS j JOIN {schema}._chains AS c ON c.id = j.chain
    WHERE j.id = ANY (_jobs) AND NOT over @> j.id AND c.state <> 'open'
  );
END $$;
