-- Lock up to `_limit` jobs that are neither running nor in a batch, as `_pick_…` does. `spans` is how
-- many ranges of ids the batches have.
CREATE OR REPLACE FUNCTION {schema}._pick(
  _tasks text[], _limit integer, _suspects integer, _forbidden text[], _marks bigint[],
  OUT picked tid[], OUT spare bigint, OUT spans integer
) LANGUAGE plpgsql AS $$
DECLARE
  bases bigint[];
  held int8multirange;
BEGIN
  picked := '{}';
  spare := 0;
  spans := 0;
  IF cardinality(_tasks) = 0 OR _limit <= 0 THEN
    RETURN;
  END IF;
  bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  -- To pass by a row that another claim has locked costs many times what one of its batch does. So
  -- where there are batches, large claims take turns; each waits about 10 ms at most.
  IF _limit >= 500 AND bases <> '{}' THEN
    FOR attempt IN 1 .. 10 LOOP
      EXIT WHEN pg_try_advisory_xact_lock({turn});
      PERFORM pg_sleep(0.001);
    END LOOP;
    bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  END IF;
  LOOP
    held := '{}';
    IF bases <> '{}' THEN
      SELECT coalesce(range_agg(r.span), '{}'), count(*) INTO held, spans
      FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
      WHERE b.base = ANY (bases);
    END IF;
    spare := cardinality(_tasks);  -- each branch reads one job ahead
    CASE
      WHEN cardinality(_tasks) = 1 THEN
        picked := {schema}._pick_1(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 4 THEN
        picked := {schema}._pick_4(_tasks, _limit, _suspects, _forbidden, _marks, held);
      WHEN cardinality(_tasks) <= 16 THEN
        picked := {schema}._pick_16(_tasks, _limit, _suspects, _forbidden, _marks, held);
      ELSE
        SELECT m.picked, m.spare INTO picked, spare
        FROM {schema}._pick_many(_tasks, _limit, _suspects, _forbidden, _marks, held) AS m;
    END CASE;
    -- A batch that was written in the meantime may have some of these: pick again, without them.
    EXIT WHEN picked = '{}' OR NOT EXISTS (
      SELECT FROM {schema}._batches AS b
      WHERE b.base <> ALL (bases)
        AND b.ids && {schema}._spans(
          ARRAY(SELECT j.id FROM {schema}._jobs AS j WHERE j.ctid = ANY (picked)))
    );
    bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  END LOOP;
END $$;
