"""The record that a handler gets, made of a row."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from windlass.errors import ConfigError
from windlass.store.records import Lease
from windlass.stores.table.options import TableOptions

R = TypeVar("R")


class Row(msgspec.Struct, frozen=True):
    """What was selected of a row, and what its columns are called."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


class RowLease(Lease):
    """A lease that carries the row, of which the worker makes the record when it runs it: a row
    that `scan` or psycopg cannot read fails alone."""

    row: Any = None
    options: Any = None

    @property
    def record(self) -> Any:
        if isinstance(self.row, Exception):
            raise self.row
        return _record(self.options, self.row)


def _record(options: TableOptions[R], row: Row) -> Any:
    scan: Any = options.scan
    fields = options.field_names
    if fields is not None:
        if len(row.values) > len(fields):
            raise ConfigError(
                f"{len(row.values)} columns are selected, but {scan.__name__} has only"
                f" {len(fields)} fields"
            )
        return scan(**dict(zip(fields, row.values, strict=False)))
    by_name = dict(zip(row.names, row.values, strict=True))
    if len(by_name) < len(row.names):
        [twice, *_] = [name for name in row.names if row.names.count(name) > 1]
        raise ConfigError(
            f"two of column_expressions are called {twice}; name them: '(SELECT …) AS name'"
        )
    return by_name if scan is None else scan(by_name)
