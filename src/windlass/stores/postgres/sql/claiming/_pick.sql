-- Lock up to `_limit` jobs that are neither running nor in a batch: their places in the table.
-- The variants of `_pick_n.sql` do it, for so many branches. `spare` is how many jobs were read and are not
-- taken, `spans` how many ranges of ids the batches have.
--
-- Lock first, look afterwards. A claim that writes a batch leaves the rows of its jobs as they are.
-- So neither its lock, once that is gone, nor the row tells another claim that job 7 was taken:
--
--      claim A                             claim B
--      --------------------------------    --------------------------------------------------
--      reads the batches: none
--      locks row 7
--                                          reads the batches: none
--      writes the batch {7}, commits
--                                          locks row 7: it is ready, not locked, and in none
--                                          of the batches that B has read
--                                          looks again, in a statement of its own: finds the
--                                          batch {7}, and picks again without job 7
--
-- Without the last step B would take job 7 too, and it would run twice at once. One look after the
-- lock is enough. B has the lock, so A either has ended, and then its batch is seen by every
-- statement that begins now; or it comes to row 7 later, and skips it while B has it locked.
CREATE OR REPLACE FUNCTION {schema}._pick(
  _kind text, _tasks text[], _tenants text[], _limit integer, _suspects integer,
  _forbidden text[], _marks bigint[],
  OUT picked tid[], OUT spare bigint, OUT spans integer
) LANGUAGE plpgsql AS $$
DECLARE
  bases bigint[];
  batched int8multirange;
BEGIN
  picked := '{}';
  spare := 0;
  spans := 0;
  IF cardinality(_tasks) = 0 OR _limit <= 0 THEN
    RETURN;
  END IF;
  -- Where only the default tenant has jobs to claim, what others would have is not read. After marks
  -- it is: dead entries before them are not to be read again.
  IF _kind = 'every' AND _marks = '{}' AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS j
    WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > ''
  ) AND NOT EXISTS (
    SELECT FROM {schema}._jobs AS j WHERE j.state = 'ready' AND j.suspect AND j.tenant > ''
  ) THEN
    _kind := 'default';
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
    batched := '{}';
    IF bases <> '{}' THEN
      SELECT coalesce(range_agg(r.span), '{}'), count(*) INTO batched, spans
      FROM {schema}._batches AS b CROSS JOIN LATERAL unnest(b.ids) AS r (span)
      WHERE b.base = ANY (bases);
    END IF;
    -- Each branch reads one job ahead, of each index.
    spare := cardinality(_tasks) * CASE WHEN _kind = 'every' THEN 2 ELSE 1 END;
    IF cardinality(_tasks) > 16 THEN
      SELECT m.picked, m.spare INTO picked, spare FROM {schema}._pick_many(
        _kind, _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched) AS m;
    ELSE
      picked := CASE
        WHEN _kind = 'default' THEN CASE
          WHEN cardinality(_tasks) = 1 THEN {schema}._pick_default_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN {schema}._pick_default_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE {schema}._pick_default_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
        WHEN _kind = 'every' THEN CASE
          WHEN cardinality(_tasks) = 1 THEN {schema}._pick_every_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN {schema}._pick_every_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE {schema}._pick_every_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
        ELSE CASE
          WHEN cardinality(_tasks) = 1 THEN {schema}._pick_named_1(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          WHEN cardinality(_tasks) <= 4 THEN {schema}._pick_named_4(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
          ELSE {schema}._pick_named_16(
            _tasks, _tenants, _limit, _suspects, _forbidden, _marks, batched)
        END
      END;
    END IF;
    -- The look afterwards. A batch that was written in the meantime may have some of these.
    EXIT WHEN picked = '{}' OR NOT EXISTS (
      SELECT FROM {schema}._batches AS b
      WHERE b.base <> ALL (bases)
        AND b.ids && {schema}._spans(
          ARRAY(SELECT j.id FROM {schema}._jobs AS j WHERE j.ctid = ANY (picked)))
    );
    bases := ARRAY(SELECT b.base FROM {schema}._batches AS b);
  END LOOP;
END $$;
