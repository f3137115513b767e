"""Mutation proof: one protection is taken out at a time, and the tests named for it must fail.

`mutations` is the list, `__main__` the runner (`make mutation`), `witness` what the runner loads
into pytest. `tests/docs/test_mutation_page.py` keeps the list, the sources and the table in
docs/promises.md in step.
"""
