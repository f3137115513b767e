-- Drop old rates.
-- Index expected: windlass_rates_period.
DELETE FROM windlass_rates
WHERE (task, period, tenant) IN (
  SELECT task, period, tenant FROM windlass_rates WHERE period < :before ORDER BY period LIMIT :limit
)
