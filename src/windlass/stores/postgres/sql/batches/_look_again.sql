-- Refuse a change of jobs that were claimed in batches that `_seen` did not find.
CREATE OR REPLACE FUNCTION {schema}._look_again(_ids bigint[], _bases bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  unseen int8multirange;
BEGIN
  SELECT range_agg(r.span) INTO unseen
  FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
  WHERE b.base <> ALL (_bases);
  IF unseen IS NOT NULL AND EXISTS (SELECT FROM unnest(_ids) AS i WHERE unseen @> i) THEN
    RAISE EXCEPTION 'Some of these jobs were claimed meanwhile' USING ERRCODE = 'WLBAT';
  END IF;
END $$;
