-- The jobs that rows of `_batches` name, one by one. What a batch is, is said at that table.
CREATE OR REPLACE VIEW {schema}._in_batches AS
SELECT i.id, b.base, b.worker, b.claimed_at
FROM {schema}._batches AS b
CROSS JOIN LATERAL unnest(b.ids) AS r (span)
CROSS JOIN LATERAL generate_series(lower(r.span), upper(r.span) - 1) AS i (id);
