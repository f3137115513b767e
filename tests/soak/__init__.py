"""Soak: a steady load and steady faults for a long time; nothing may be lost, and nothing may grow.

`tasks` is the app of the worker processes, `load` the process that adds jobs and works as operator,
`sites` a database with its processes, `faults` what happens to them, `samples` what is measured,
`invariants` what the ledger must show at the end, `verdict` whether a figure is flat, `course` one
run from start to end. `python -m tests.soak` runs it (`make soak`), `python -m tests.soak.page`
writes the table of docs/promises.md.
"""
