-- Those of these tasks that are not paused, and their marks, which belong to them by their places.
CREATE OR REPLACE FUNCTION {schema}._without_paused(
  _tasks text[], _marks bigint[], OUT tasks text[], OUT marks bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(array_agg(t.name ORDER BY t.n), '{}'), coalesce(array_agg(
    ARRAY[_marks[t.n][1], _marks[t.n][2], _marks[t.n][3]] ORDER BY t.n), '{}')
  INTO tasks, marks FROM unnest(_tasks) WITH ORDINALITY AS t (name, n)
  WHERE NOT EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task' AND p.name = t.name);
END $$;
