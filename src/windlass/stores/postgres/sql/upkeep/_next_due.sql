-- Seconds until the next scheduled job after `_after` is due, its place, and what that took, as
-- above.
CREATE OR REPLACE FUNCTION {schema}._next_due(
  _after bigint[], _now timestamptz DEFAULT NULL,
  OUT due float8, OUT place bigint[], OUT entries bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  before bigint := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass);
BEGIN
  SELECT extract(epoch FROM j.run_at - coalesce(_now, statement_timestamp()))::float8,
    ARRAY[{schema}._micros(j.run_at), j.id]
  INTO due, place FROM {schema}._jobs AS j
  WHERE j.state = 'scheduled'
    AND (j.run_at, j.id) > (
      timestamptz 'epoch' + _after[1] * interval '1 microsecond', _after[2])
  ORDER BY j.run_at, j.id LIMIT 1;
  entries := pg_stat_get_xact_tuples_returned({scheduled_index}::regclass) - before;
END $$;
