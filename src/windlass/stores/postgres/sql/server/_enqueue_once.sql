-- Add the jobs of each request if and only if none was added under its key while requests are remembered.
-- A request is at its place in `_tenants`, `_keys` and `_digests`, and has so many of `_jobs` as `_counts`
-- says; these are as `_add_jobs` has them, those of the first request first. `_is_keyed` says that some have
-- keys, or wait for chains. Answers a JSON array with an object for each request, as
-- `windlass.store.server.Requested` has them, and one with the rows of all jobs that are still there.
--
-- `_by` is a random number of this call. If its answer is lost it is made again with the same number, and
-- the answer then still says which requests were new.
--
-- A request that is there already is only read. For the others rows are written, in the order of tenant and
-- key, so that two calls at once never deadlock; each waits for another call that is just writing the
-- same one. What that call has written is read afterwards, in a statement of its own. Only this
-- transaction sees a row without ids, so those are its own.
CREATE OR REPLACE FUNCTION {schema}._enqueue_once(
  _tenants text[], _keys text[], _digests text[], _counts integer[], _jobs json,
  _is_keyed boolean, _by bigint, _now timestamptz DEFAULT NULL,
  OUT answers text, OUT rows text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  old timestamptz := at - {requests_kept};
  written bigint[];
  owners bigint[];
  numbers bigint[];
  is_gone boolean;
BEGIN
  PERFORM {schema}._need_read_committed();
  IF at <> {schema}._finite(at) THEN
    RAISE EXCEPTION 'No job can be added at %', at USING ERRCODE = '22023';
  END IF;
  INSERT INTO {schema}._requests AS q (asked_at, asked_by, tenant, key, digest)
  SELECT DISTINCT ON (x.tenant, x.key) at, _by, x.tenant, x.key, x.digest
  FROM unnest(_tenants, _keys, _digests) WITH ORDINALITY AS x (tenant, key, digest, place)
  WHERE (
    SELECT o.asked_at > old FROM {schema}._requests AS o
    WHERE o.tenant = x.tenant AND o.key = x.key
  ) IS NOT TRUE
  ORDER BY x.tenant, x.key, x.place
  ON CONFLICT (tenant, key) DO UPDATE SET
    asked_at = excluded.asked_at, asked_by = excluded.asked_by, digest = excluded.digest,
    ids = NULL
  WHERE q.asked_at <= old;
  IF FOUND THEN
    written := ARRAY(
      SELECT min(x.place) FROM unnest(_tenants, _keys) WITH ORDINALITY AS x (tenant, key, place)
      JOIN {schema}._requests AS q ON q.tenant = x.tenant AND q.key = x.key AND q.ids IS NULL
      GROUP BY x.tenant, x.key
    );
    owners := ARRAY(
      SELECT r.place FROM unnest(_counts) WITH ORDINALITY AS r (count, place)
      CROSS JOIN generate_series(1, r.count) ORDER BY r.place
    );
    SELECT array_agg(j.owner ORDER BY j.place), json_agg(j.job ORDER BY j.place)
    INTO owners, _jobs
    FROM ROWS FROM (unnest(owners), json_array_elements(_jobs)) WITH ORDINALITY
      AS j (owner, job, place)
    WHERE j.owner = ANY (written);
    numbers := {schema}._add_jobs(_jobs, _is_keyed, at);
    UPDATE {schema}._requests AS q SET ids = n.ids FROM (
      SELECT w.owner, array_agg(w.id ORDER BY w.place) AS ids
      FROM unnest(owners, numbers) WITH ORDINALITY AS w (owner, id, place) GROUP BY w.owner
    ) AS n
    WHERE q.tenant = _tenants[n.owner] AND q.key = _keys[n.owner];
  END IF;
  SELECT
    json_agg(CASE
      WHEN q.digest <> x.digest THEN json_build_object('is_conflict', true)
      ELSE json_build_object('ids', q.ids, 'is_new', q.asked_by = _by AND x.is_first)
    END ORDER BY x.place)::text,
    bool_or(q.ids IS NULL),
    {schema}._rows_of(ARRAY(
      SELECT i.id FROM unnest(_tenants, _keys) AS y (tenant, key)
      JOIN {schema}._requests AS r ON r.tenant = y.tenant AND r.key = y.key
      CROSS JOIN LATERAL unnest(r.ids) AS i (id)
    ))
  INTO answers, is_gone, rows
  FROM (
    SELECT u.*, row_number() OVER (PARTITION BY u.tenant, u.key ORDER BY u.place) = 1 AS is_first
    FROM unnest(_tenants, _keys, _digests) WITH ORDINALITY AS u (tenant, key, digest, place)
  ) AS x
  LEFT JOIN {schema}._requests AS q ON q.tenant = x.tenant AND q.key = x.key;
  IF is_gone THEN
    RAISE EXCEPTION 'A request was forgotten just now; ask again'
      USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
