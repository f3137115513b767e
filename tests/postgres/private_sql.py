"""Private functions of the schema, called by name: an argument that is added moves no other."""

from __future__ import annotations

CLAIM = {
    "worker": "'w'",
    "tasks": "'{a}'",
    "tenants": """'{"",NULL}'""",
    "limit": "10",
    "suspects": "0",
    "lease": "30",
    "base": "1",
    "longer": "'{}'",
    "forbidden": "'{}'",
    "past_heads": "false",
    "after": "'{}'",
    "marks": "'{}'",
    "bell": "0",
    "least": "20",
    "emptied": "'{}'",
}
"""The arguments of `_claim` as SQL, where a test says nothing."""


def claim(schema: str, columns: str = "leases", **arguments: str) -> str:
    """A call of `_claim`. An argument may be a place, `%s`; values are given in the order of
    `CLAIM`, whatever the order here."""
    given = CLAIM | arguments
    assert given.keys() == CLAIM.keys(), f"_claim has no {set(given) - set(CLAIM)}"
    named = ", ".join(f"_{name} => {value}" for name, value in given.items())
    return f"SELECT {columns} FROM {schema}._claim({named})"
