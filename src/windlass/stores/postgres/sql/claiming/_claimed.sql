-- What claims with these bases took, if they happened at all. Those that have not happened by now
-- never will: the answer is final. It waits for one that is just writing.
CREATE OR REPLACE FUNCTION {schema}._claimed(
  _worker text, _lease float8, _bases bigint[], _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '5s'
AS $$
DECLARE
  number bigint;
BEGIN
  number := {schema}._beat(_worker, _lease, _now);
  PERFORM FROM {schema}._workers AS w WHERE w.id = number FOR UPDATE;
  UPDATE {schema}._workers AS w
  SET refused = _bases || w.refused[:100] WHERE w.id = number;
  RETURN (SELECT '[' || string_agg(x.lease, ',') || ']' FROM (
    SELECT {schema}._lease(j, j.token - j.id, 0, to_json(_worker)) AS lease
    FROM {schema}._jobs AS j
    WHERE j.state = 'running' AND j.worker = number AND j.token - j.id = ANY (_bases)
    UNION ALL
    SELECT {schema}._lease(j, b.base, 1, to_json(_worker))
    FROM {schema}._in_batches AS b JOIN {schema}._jobs AS j ON j.id = b.id
    WHERE b.base = ANY (_bases) AND {ready_undelivered j}
  ) AS x);
END $$;
