-- One lease for those of these jobs that are plain, if they are `_least` or more: the answers, and
-- how many they are. None, and nothing is written, where they are fewer, or where with them the
-- batches would have too many ranges of ids; `_spans` is how many these have. Every claim reads all
-- of them. Where jobs in between are other workers' or have keys there is one for each job, and
-- beyond so many it costs less to write the rows.
CREATE OR REPLACE FUNCTION {schema}._write_batch(
  _picked tid[], _spans integer, _least integer, _number bigint, _worker text, _at timestamptz,
  _base bigint, _longer jsonb, OUT leases text, OUT size integer
) LANGUAGE plpgsql AS $$
DECLARE
  plain bigint[];
  ids int8multirange;
BEGIN
  SELECT array_agg(j.id), string_agg({schema}._lease(j, _base, 1, to_json(_worker)), ',')
  INTO plain, leases FROM {schema}._jobs AS j
  WHERE j.ctid = ANY (_picked) AND j.deliveries = 0 AND j.key IS NULL AND j.queue IS NULL
    AND NOT _longer ? j.task;
  size := coalesce(cardinality(plain), 0);
  IF size >= _least THEN
    ids := {schema}._spans(plain);
    IF _spans + (SELECT count(*) FROM unnest(ids)) <= {most_spans} THEN
      INSERT INTO {schema}._batches (base, worker, claimed_at, ids)
      VALUES (_base, _number, _at, ids);
      RETURN;
    END IF;
  END IF;
  leases := NULL;
  size := 0;
END $$;
