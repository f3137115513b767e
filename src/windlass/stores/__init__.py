"""The stores. Only `store_kinds` (each kind), `table` and `graphile_import` (one store each) import
them; every other module knows the port alone. `lint-imports` checks it.
"""
