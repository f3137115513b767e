-- What `windlass.model.fingerprint` says of a text without a traceback: an operator's reason, or one of
-- the store's own. Errors of handlers bring theirs along.
CREATE OR REPLACE FUNCTION {schema}._fingerprint(_tenant text, _task text, _text text) RETURNS text
LANGUAGE sql STABLE
RETURN left(encode(sha256(convert_to(_tenant, 'UTF8')), 'hex'), 4) || left(encode(sha256(convert_to(
  _tenant || E'\n' || _task || E'\n'
  || regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
    left(split_part(coalesce(_text, ''), E'\n', 1), 300),
    '"[^"]*"', '""', 'g'),
    '''[^'']*''', '''''', 'g'),
    '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '0', 'g'),
    '0[xX][0-9a-fA-F]+', '0', 'g'),
    '[0-9a-fA-F]{16,}', '0', 'g'),
    '[0-9]+', '0', 'g')
  || E'\n', 'UTF8')), 'hex'), 12);
