-- Remember which tasks a worker runs, and for which tenants (NULL for all); whether there is such a
-- worker.
CREATE OR REPLACE FUNCTION {schema}._introduce(_worker text, _tasks text[], _tenants text[])
RETURNS boolean
LANGUAGE sql
BEGIN ATOMIC
  UPDATE {schema}._workers AS w SET tasks = _tasks, tenants = _tenants
  WHERE w.name = _worker
    AND (w.tasks, w.tenants) IS DISTINCT FROM (_tasks, _tenants);
  SELECT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.name = _worker);
END;
