-- Add what a worker did to the rates of this period, and drop some old ones. `_rows` are [task, tenant,
-- the numbers of `Figures` …] in the order of tasks and tenants, in which every call locks them.
--
-- Nothing hangs on the last seconds of these figures, so no call waits for the disk.
CREATE OR REPLACE FUNCTION {schema}._note_rates(_rows json, _now timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO {schema}._rates AS r (period, task, tenant, {rates})
  SELECT date_bin({rates_period}, at, timestamptz 'epoch'), x.row ->> 0, x.row ->> 1, {rates_of_row}
  FROM json_array_elements(_rows) AS x (row)
  ON CONFLICT (task, period, tenant) DO UPDATE SET {rates_added};
  DELETE FROM {schema}._rates AS r WHERE r.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}._rates AS o WHERE o.period < at - {rates_kept}
    ORDER BY o.period LIMIT 1000 FOR UPDATE SKIP LOCKED
  ));
END $$;
