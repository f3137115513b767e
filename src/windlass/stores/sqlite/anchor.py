"""Whether a path still names the file that was opened.

A file that is open lives on when its name is deleted or given to another, and SQLite goes on
writing into it, where no process that opens the path later finds it. So each connection remembers
which file it opened, and a commit counts only if the path names that file after it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from windlass.errors import StoreUnavailableError
from windlass.stores.sqlite.connection import Synchronous, connect

_Identity = tuple[int, int]


class Anchor:
    """The file that a path names now, to be compared with what it names later."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self.file = _identify(self._path)

    def is_in_place(self) -> bool:
        """Whether the path still names this file, and something is in it."""
        try:
            found = self._path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.file and found.st_size > 0

    def is_replaced(self) -> bool:
        """Whether the path names another file."""
        return _identify(self._path) not in (None, self.file)

    def explain(self) -> StoreUnavailableError:
        """Why it is not in place, and what to do."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return StoreUnavailableError(
                f"{self._path} was deleted or moved away while it was open, so nothing is stored;"
                " put it back, or start this program anew to begin with an empty file"
            )
        except OSError as error:
            return StoreUnavailableError(
                f"{self._path} cannot be looked at any more ({error.strerror}), so nothing is"
                " stored; give this user the right to its directory"
            )
        if (found.st_dev, found.st_ino) == self.file:
            return StoreUnavailableError(
                f"{self._path} was emptied while it was open; stop all programs that use it, and"
                " restore it from a backup"
            )
        return StoreUnavailableError(
            f"{self._path} was replaced by another file while it was open, so this call was not"
            " stored there; make it again"
        )

    def require(self) -> None:
        if not self.is_in_place():
            raise self.explain()


def open_anchored(
    path: str, synchronous: Synchronous, *, make: bool = False, look: bool = False
) -> tuple[sqlite3.Connection, Anchor]:
    """A connection, and the file it is to."""
    while True:
        before = _identify(Path(path))
        connection = connect(path, synchronous, make=make, look=look)
        anchor = Anchor(path)
        if before in (None, anchor.file):
            return connection, anchor
        connection.close()  # replaced just now: which of the two it is to cannot be told


def _identify(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
