"""What the functions refuse because of chains, as the errors that callers of the store know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    StoreError,
    WindlassError,
)
from windlass.stores.postgres_connections.failures import one_line


@contextmanager
def told_plainly() -> Iterator[None]:
    """Raise the error that says what was refused in place of the one that says that it was."""
    try:
        yield
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.Error):
            refusal = refused(cause.sqlstate or "", one_line(cause), cause.diag.message_detail)
            if refusal is not None:
                raise refusal from cause
        raise


def refused(state: str, text: str, detail: str | None = None) -> WindlassError | None:
    """What the server says by this SQLSTATE, or None. Some libraries do not tell the detail, in
    which the ids are; the text of an unknown chain has them too."""
    named = re.search(r"no chain ([\d, ]+)", text)
    listed = detail or (named[1] if named is not None else "")
    ids = [int(number) for number in re.findall(r"\d+", listed)]
    match state:
        case "WLCNF":
            return ChainNotFoundError(ids)
        case "WLCCL":
            return ChainClosedError(text)
        case "WLBRF":
            return BlockerReferenceError(text, ids)
        case _:
            return None
