-- What a claim for these tasks and tenants picks from, branch by branch, as `_pick_n.sql` says; a
-- branch has the mark of its task. What is paused is left out, but for tasks of other tenants where
-- all are served: their jobs lie among others', and `_park` takes them out of the way.
CREATE OR REPLACE FUNCTION {schema}._branches(
  _kind text, _tasks text[], _tenants text[], _marks bigint[],
  OUT tasks text[], OUT tenants text[], OUT marks bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(array_agg(b.task ORDER BY b.n), '{}'),
    coalesce(array_agg(b.tenant ORDER BY b.n), '{}'),
    coalesce(array_agg(
      ARRAY[_marks[b.n][1], _marks[b.n][2], _marks[b.n][3]] ORDER BY b.n), '{}')
  INTO tasks, tenants, marks
  FROM (
    SELECT t.name AS task, t.n, CASE
      WHEN _kind = 'every' AND p.name IS NOT NULL THEN 'paused'
      WHEN _kind = 'named' THEN o.name ELSE '' END AS tenant
    FROM unnest(_tasks) WITH ORDINALITY AS t (name, n)
    CROSS JOIN unnest(CASE WHEN _kind = 'named' THEN _tenants ELSE '{""}' END) AS o (name)
    LEFT JOIN {schema}._paused AS p
      ON p.kind = 'task' AND p.name = t.name AND p.tenant = o.name
    WHERE _kind = 'every' OR p.name IS NULL
  ) AS b;
END $$;
