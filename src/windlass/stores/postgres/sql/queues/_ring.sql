-- Ring for these queues of these tenants, place by place: a claim is to look at each.
CREATE OR REPLACE FUNCTION {schema}._ring(_tenants text[], _queues text[]) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO {schema}._bells (tenant, queue)
  SELECT q.tenant, q.name FROM unnest(_tenants, _queues) AS q (tenant, name);
END;
