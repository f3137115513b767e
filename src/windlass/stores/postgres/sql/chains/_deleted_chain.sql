-- What is known of a chain that a job named, and that is deleted or was pruned.
CREATE OR REPLACE FUNCTION {schema}._deleted_chain(_id bigint, _tenant text, _since timestamptz)
RETURNS {schema}._chains LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  c {schema}._chains;
BEGIN
  c.id := _id;
  c.state := 'cancelled';
  c.tenant := _tenant;
  c.task := '';
  c.payload := 'null';
  c.error := {deleted_chain};
  c.length := 1;
  c.created_at := _since;
  c.finished_at := _since;
  RETURN c;
END $$;
