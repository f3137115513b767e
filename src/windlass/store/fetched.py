"""Rows as handlers get them: by place or by name, whatever the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NamedRow(tuple[Any, ...]):
    """A tuple whose values can be had by the names of their columns, too: `row["id"]`.

    `dict(row)` works. Of two columns of one name the first counts.
    """

    _places: Mapping[str, int]

    def keys(self) -> list[str]:
        return list(self._places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            return tuple.__getitem__(self, self._places[place])
        return tuple.__getitem__(self, place)


def fetched(cursor: Any) -> list[Any]:
    """All rows a DB-API cursor has; none where the statement returns none."""
    return [] if cursor.description is None else named(cursor, cursor.fetchall())


def named(cursor: Any, rows: list[Any]) -> list[Any]:
    """Give plain tuples their names. Rows of a kind that the connection's owner chose stay."""
    if not rows or type(rows[0]) is not tuple:
        return rows
    places: dict[str, int] = {}
    for place, column in enumerate(cursor.description):
        places.setdefault(column[0], place)
    return [_row(values, places) for values in rows]


def _row(values: tuple[Any, ...], places: Mapping[str, int]) -> NamedRow:
    row = NamedRow(values)
    row._places = places
    return row
