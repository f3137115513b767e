-- For each scope, a JSON array of objects with `tasks` and `tenants`, each NULL for all, whether a claim may
-- find a job. One snapshot for everything: a bell and the job that a claim makes ready of it are not
-- both missed.
--
-- False is sure. True are also scopes for which a bell may have rung; with a queue whose head other workers
-- may run, or very many queues; and those that are left when the call has read enough: index entries
-- of claimed jobs pile up while an old snapshot is open, and claims have marks for these, which start
-- behind them.
CREATE OR REPLACE FUNCTION {schema}._may_claim(_scopes json) RETURNS boolean[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  most CONSTANT bigint := 10000;
  before bigint := {entries_read};
  answers boolean[] := '{}';
  batched int8multirange;
  is_rung boolean;
  is_rung_others boolean;
  is_waiting boolean;
  owners_of_suspects text[];
  suspects text[];
  scope record;
BEGIN
  SELECT
    EXISTS (SELECT FROM {schema}._bells AS b WHERE b.tenant = ''),
    EXISTS (SELECT FROM {schema}._bells AS b WHERE b.tenant > ''),
    EXISTS (SELECT FROM {schema}._jobs AS j WHERE j.state = 'waiting' AND j.queue IS NOT NULL),
    coalesce((SELECT range_agg(r.span) FROM {schema}._batches AS b
              CROSS JOIN LATERAL unnest(b.ids) AS r (span)), '{}')
  INTO is_rung, is_rung_others, is_waiting, batched;
  SELECT array_agg(s.tenant), array_agg(s.task) INTO owners_of_suspects, suspects
  FROM {schema}._suspect_tasks() AS s;
  FOR scope IN
    SELECT x.tasks, coalesce(x.tenants, '{"",NULL}') AS owners
    FROM ROWS FROM (json_to_recordset(_scopes) AS (tasks text[], tenants text[]))
      WITH ORDINALITY AS x (tasks, tenants, place)
    ORDER BY x.place
  LOOP
    answers := answers || (
      {entries_read} - before > most
      OR is_rung AND ('' = ANY (scope.owners)) IS TRUE
      OR is_rung_others AND {schema}._is_rung(scope.owners)
      OR suspects IS NOT NULL
        AND {schema}._is_suspect(scope.tasks, scope.owners, suspects, owners_of_suspects)
      OR CASE
        WHEN scope.tasks IS NULL THEN {schema}._is_any_ready(scope.owners, batched)
        ELSE EXISTS (
          SELECT FROM unnest(scope.tasks) AS t (name) CROSS JOIN unnest(scope.owners) AS o (name)
          WHERE {schema}._is_ready(o.name, t.name, batched)
        )
      END
      OR is_waiting AND {schema}._is_behind_a_head(scope.tasks, scope.owners)
    );
  END LOOP;
  RETURN answers;
END $$;
