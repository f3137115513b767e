"""How rows come from statements, and lists go to them: as JSON, all of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import msgspec

from windlass.store.records import NewJob, Row
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.statements import OF_OTHERS

Item = TypeVar("Item")

_MOST_ROWS = 1000
_MOST_TEXT = 4_000_000

_decode = msgspec.json.Decoder(list[Row]).decode
_encode = msgspec.json.encode


def read(db: Session, name: str, **parameters: object) -> list[Row]:
    """The rows of one of the `read_…` or `find_…` statements."""
    return _decode(db.value(name, parameters))


def read_named(db: Session, name: str, pairs: Collection[tuple[str, str]]) -> list[Row]:
    """The rows of a statement about names of tenants."""
    return [row for variant, names in named(name, pairs) for row in read(db, variant, names=names)]


def named(statement: str, pairs: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """The statements to run for names that belong to tenants, each with its list of names."""
    of_default = sorted([name for tenant, name in pairs if not tenant])
    of_others = sorted([pair for pair in pairs if pair[0]])
    variants = ((statement, of_default), (statement + OF_OTHERS, of_others))
    return [(variant, json_text(names)) for variant, names in variants if names]


def json_text(value: object) -> str:
    """How every statement is given a list."""
    return _encode(value).decode()


def pieces(items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[Sequence[Item]]:
    """What is given to one statement: at most 1,000, and a few megabytes of text."""
    start = total = 0
    for end, item in enumerate(items):
        length = size(item)
        total += length
        if end > start and (end - start == _MOST_ROWS or total > _MOST_TEXT):
            yield items[start:end]
            start, total = end, length
    if start < len(items):
        yield items[start:]


def payload_length(job: NewJob | Row) -> int:
    return len(job.payload)
