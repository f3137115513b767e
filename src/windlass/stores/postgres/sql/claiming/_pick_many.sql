-- The same for any number of branches; `spare` is how many jobs it read and did not take.
--
-- It first reads the best job of each branch. The best `_limit` of these name the branches that
-- matter. Then it reads some jobs of each of them, and more for as long as all that was read of one
-- is among the best `_limit`: at least four times as many each time, but none that comes after the
-- last of the best known so far. So a look reads a few times `_limit` jobs however they are spread
-- over the branches, and there are few looks. Where other claims have locked some of the best, it
-- goes on after them.
CREATE OR REPLACE FUNCTION {schema}._pick_many(
  _kind text, _tasks text[], _tenants text[], _limit integer, _suspects integer,
  _forbidden text[], _marks bigint[], _batched int8multirange, OUT picked tid[], OUT spare bigint
) LANGUAGE plpgsql AS $$
DECLARE
  names text[];
  owners text[];
  marks bigint[];
  wanted integer;
  each integer;
  best tid[];
  last bigint[];
  after bigint[];
  is_short boolean;
  read bigint;
  suspects integer;
  found_names text[];
  found_owners text[];
  found_marks bigint[];
BEGIN
  picked := '{}';
  spare := 0;
  LOOP
    names := _tasks;
    owners := _tenants;
    marks := _marks;
    wanted := _limit - cardinality(picked);
    each := 1;
    last := NULL;
    LOOP
      WITH start AS (
        SELECT t.n, t.name, coalesce(owners[t.n], '') AS owner,
          coalesce(marks[t.n][1], -2147483649) AS priority, coalesce(marks[t.n][2], 0) AS micros,
          coalesce(marks[t.n][3], 0) AS id
        FROM unnest(names) WITH ORDINALITY AS t (name, n)
      ),
      read AS MATERIALIZED (
        SELECT s.n, s.name, s.owner, ARRAY[s.priority, s.micros, s.id] AS mark, r.*
        FROM start AS s CROSS JOIN LATERAL (
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = s.name
             AND s.owner = ''
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT ({undelivered j} AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
          UNION ALL
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = s.name
             AND _kind = 'every'
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT ({undelivered j} AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
          UNION ALL
          (SELECT j.ctid AS tid, j.priority, j.run_at, j.id FROM {schema}._jobs AS j
           WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = s.owner
             AND j.task = s.name AND _kind = 'named'
             AND (j.priority, j.run_at, j.id) > (
               s.priority, timestamptz 'epoch' + s.micros * interval '1 microsecond', s.id)
             AND (j.priority, j.run_at, j.id) <= (
               coalesce(last[1], 2147483648),
               timestamptz 'epoch' + coalesce(last[2], 0) * interval '1 microsecond',
               coalesce(last[3], 0))
             AND NOT ({undelivered j} AND _batched @> j.id)
             AND (j.flags && _forbidden) IS NOT TRUE
           ORDER BY j.priority, j.run_at, j.id LIMIT each)
        ) AS r
      ),
      best_of AS MATERIALIZED (
        SELECT u.* FROM (
          SELECT r.* FROM read AS r
          UNION ALL
          SELECT NULL, NULL, NULL, NULL, s.tid, s.priority, s.run_at, s.id
          FROM {schema}._suspects(_kind, _tasks, _tenants, _suspects, _forbidden, after) AS s
        ) AS u ORDER BY u.priority, u.run_at, u.id LIMIT wanted
      ),
      branches AS (
        -- For all tenants one branch reads two indexes, and may be there twice.
        SELECT DISTINCT ON (d.n) d.n, d.name, d.owner, d.mark FROM best_of AS d
        WHERE d.n IS NOT NULL ORDER BY d.n
      )
      SELECT
        ARRAY(SELECT b.tid FROM best_of AS b),
        (SELECT ARRAY[b.priority, {schema}._micros(b.run_at), b.id] FROM best_of AS b
         OFFSET wanted - 1),
        EXISTS (SELECT FROM best_of AS b WHERE b.n IS NOT NULL
                GROUP BY b.n HAVING count(*) >= each),
        (SELECT count(*) FROM read),
        (SELECT count(*) FROM best_of AS b WHERE b.n IS NULL),
        CASE WHEN each = 1 THEN ARRAY(SELECT b.name FROM branches AS b ORDER BY b.n) END,
        CASE WHEN each = 1 THEN ARRAY(SELECT b.owner FROM branches AS b ORDER BY b.n) END,
        CASE WHEN each = 1 THEN ARRAY(SELECT b.mark FROM branches AS b ORDER BY b.n) END
      INTO best, last, is_short, read, suspects, found_names, found_owners, found_marks;
      spare := spare + read;
      EXIT WHEN NOT is_short;
      IF each = 1 THEN
        names := found_names;
        owners := found_owners;
        marks := found_marks;
      END IF;
      each := greatest(4 * each, 5 * wanted / (4 * cardinality(names)));
    END LOOP;
    picked := picked || ARRAY(
      SELECT l.tid FROM unnest(best) AS b (tid)
      CROSS JOIN LATERAL (
        SELECT r.ctid AS tid FROM {schema}._jobs AS r
        WHERE r.ctid = b.tid AND r.state = 'ready' AND NOT ({undelivered r} AND _batched @> r.id)
        FOR NO KEY UPDATE SKIP LOCKED
      ) AS l
    );
    EXIT WHEN last IS NULL OR cardinality(picked) >= _limit;
    after := last;
    _suspects := _suspects - suspects;
    _marks := ARRAY(
      SELECT greatest(after, ARRAY[
        coalesce(_marks[n][1], -2147483649), coalesce(_marks[n][2], 0), coalesce(_marks[n][3], 0)
      ]) FROM generate_series(1, cardinality(_tasks)) AS n
    );
  END LOOP;
  spare := spare - cardinality(picked);
END $$;
