"""How a store reaches a PostgreSQL server; the stores of `postgres` and `table` share it.

`address` says where the server is, `connection` bounds each call in time, `failures` says in plain
words what went wrong. `call_threads` and `loop_calls` make the store's calls, with connections from
`stock`. `handlers` lends connections to handlers, from a `pool` and under a `guard`, and
`transaction` settles a job in a handler's own transaction. `lifeline` is the lease keeper's
connection. Nothing here knows a table: each store brings its own statements.
"""
