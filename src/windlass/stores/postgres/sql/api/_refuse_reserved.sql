-- The error of a job of one of Windlass's own tasks.
CREATE OR REPLACE FUNCTION {schema}._refuse_reserved(identifier text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RAISE EXCEPTION 'Task identifier must not begin with {reserved_names}, as % does: such tasks are Windlass''s own',
    identifier USING ERRCODE = 'GWBID', HINT = 'Choose another name.';
END $$;
