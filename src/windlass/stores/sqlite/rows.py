"""How rows come from statements, and lists go to them: as JSON, all of a batch at once."""

from __future__ import annotations

import msgspec

from windlass.store.records import Row
from windlass.stores.sqlite.connection import Session

_decode = msgspec.json.Decoder(list[Row]).decode
_encode = msgspec.json.encode


def read(db: Session, name: str, **parameters: object) -> list[Row]:
    """The rows of one of the `read_…` or `find_…` statements."""
    return _decode(db.value(name, parameters))


def json_text(value: object) -> str:
    """How every statement is given a list."""
    return _encode(value).decode()
