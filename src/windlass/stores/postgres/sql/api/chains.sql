-- Chains as users see them. `length` counts the jobs so far.
CREATE OR REPLACE VIEW {schema}.chains AS
SELECT
  c.id,
  c.task AS task_identifier,
  c.state::text AS state,
  CASE
    WHEN c.state = 'open' THEN coalesce((
      SELECT j.step + 1 FROM {schema}._jobs AS j WHERE j.chain = c.id ORDER BY j.step DESC LIMIT 1
    ), c.length)
    ELSE c.length
  END AS length,
  c.key,
  c.output,
  c.error,
  c.created_at,
  c.finished_at
FROM {schema}._chains AS c;
