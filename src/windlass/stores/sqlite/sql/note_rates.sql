-- Add what was done in a period: rows are [task, tenant, the numbers of `Figures` …].
-- Index expected: the primary key.
INSERT INTO windlass_rates (period, task, tenant, {rates})
SELECT :period, value ->> 0, value ->> 1, {rates_of_row}
FROM json_each(:rows)
WHERE true
ON CONFLICT (task, period, tenant) DO UPDATE SET {rates_added}
