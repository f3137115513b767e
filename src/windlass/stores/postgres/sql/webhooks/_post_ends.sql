-- Store the jobs that post these ends (`windlass.store.webhooks`), in the transaction of the ends. The caller
-- gives the rows of jobs that have just ended (`{told j}` says which are worth giving), as they are then,
-- but for the state where all have ended in `_state`; and place by place the outputs of those that were
-- completed. What is no text is no address.
CREATE OR REPLACE FUNCTION {schema}._post_ends(
  _ended {schema}._jobs[], _outputs json[], _state {schema}._job_state, _at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}._jobs (task, payload, tenant, keep, run_at, created_at, updated_at, state)
  SELECT {webhook_task}, json_build_object(
    'url', (j.row).meta ->> {webhook},
    'job', json_build_object(
      'id', (j.row).id, 'task', (j.row).task, 'state', coalesce(_state, (j.row).state),
      'output', _outputs[j.place], 'error', (j.row).last_error, 'attempts', (j.row).attempts,
      'key', (j.row).key, 'queue', (j.row).queue, 'tenant', nullif((j.row).tenant, ''),
      'chain', (j.row).chain, 'created_at', {schema}._micros((j.row).created_at),
      'finished_at', {schema}._micros(_at)
    )
  ), (j.row).tenant, {webhook_keep}, _at, _at, _at, 'ready'
  FROM (
    SELECT _ended[n] AS row, n AS place FROM generate_series(1, cardinality(_ended)) AS n
  ) AS j
  WHERE jsonb_typeof((j.row).meta -> {webhook}) = 'string';
  IF FOUND THEN
    PERFORM {schema}._announce(NULL, NULL, true, false);
  END IF;
END $$;
