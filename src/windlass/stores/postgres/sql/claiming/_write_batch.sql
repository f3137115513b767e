-- Write one lease for these jobs, unless with them the batches would have too many ranges of ids,
-- of which they have `_spans` already; whether it was written. Every claim reads all of them. Where
-- jobs in between are other workers' or have keys there is one for each job, and beyond so many it
-- costs less to write the rows.
CREATE OR REPLACE FUNCTION {schema}._write_batch(
  _ids bigint[], _spans integer, _worker bigint, _at timestamptz, _base bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  ids int8multirange := {schema}._spans(_ids);
BEGIN
  IF _spans + (SELECT count(*) FROM unnest(ids)) > {most_spans} THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}._batches (base, worker, claimed_at, ids) VALUES (_base, _worker, _at, ids);
  RETURN true;
END $$;
