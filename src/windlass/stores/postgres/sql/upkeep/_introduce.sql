-- Remember which tasks a worker runs; whether there is such a worker.
CREATE OR REPLACE FUNCTION {schema}._introduce(_worker text, _tasks text[]) RETURNS boolean
LANGUAGE sql
BEGIN ATOMIC
  UPDATE {schema}._workers AS w SET tasks = _tasks
  WHERE w.name = _worker AND w.tasks IS DISTINCT FROM _tasks;
  SELECT EXISTS (SELECT FROM {schema}._workers AS w WHERE w.name = _worker);
END;
