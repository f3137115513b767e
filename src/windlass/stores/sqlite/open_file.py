"""The file that the writer thread uses: the one that its path names.

Where the path comes to name another file, that one is used from then on. While it names none,
every call fails and says what happened to the file; the log says it once.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

from windlass.clock import SYSTEM
from windlass.errors import StoreError
from windlass.stores.sqlite.anchor import Anchor
from windlass.stores.sqlite.connection import Session, translate
from windlass.stores.sqlite.lock_notice import LockNotice

CHECK_AGAIN = 0.05
"""Seconds after which the path is looked at again, to see whether it still names the open file."""

Opener = Callable[[bool], tuple[sqlite3.Connection, Anchor]]
"""Opens the file, or opens it `again` (True), where one that is not there is not made."""

_log = logging.getLogger("windlass.sqlite")


class OpenFile:
    """Opened when it is made, which raises what is wrong with the file.

    `db` stays the same when another file is used; `replaced` is called then.
    """

    def __init__(self, path: str, opener: Opener, replaced: Callable[[], None]) -> None:
        self._path = path
        self._opener = opener
        self._replaced = replaced
        connection, self._anchor = opener(False)
        self.db = Session(connection)
        self.notice = LockNotice(path)
        self._checked_at = 0.0
        self._told = ""

    def check(self) -> None:
        """Whether the path still names the file that is open; another in its place is used.

        While there is none, raises what happened to it. Asked again after a while only: each
        commit looks too, before its callers are answered.
        """
        now = SYSTEM.monotonic()
        if now - self._checked_at < CHECK_AGAIN:
            return
        if not self._anchor.is_in_place():
            self._use_another()
        self._checked_at = now

    def require(self) -> None:
        """Raise unless the path names the open file at this moment."""
        self._anchor.require()

    def explain(self, error: Exception) -> Exception:
        """What went wrong, as callers are told: what happened to the file goes before all else."""
        if not self._anchor.is_in_place():
            self._checked_at = 0.0
            return self._anchor.explain()
        return translate(error, self._path) if isinstance(error, sqlite3.Error) else error

    def close(self) -> None:
        self.notice.close()
        self.db.connection.close()

    def checkpoint(self) -> None:
        """Move what the log holds into the file, as far as no other connection reads it."""
        if not self._anchor.is_in_place():
            return
        try:
            self.db.control("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            _log.debug("no checkpoint of %s at the end: %s", self._path, error)

    def _use_another(self) -> None:
        gone = self._anchor.explain()
        if not self._anchor.is_replaced():
            self._tell(gone)
            raise gone
        try:
            connection, anchor = self._opener(True)
        except StoreError as error:
            self._tell(error)
            raise
        self._tell(gone)
        _log.warning("using the file that is there now at %s", self._path)
        self.close()
        self.notice = LockNotice(self._path)
        self.db.use(connection)
        self._anchor = anchor
        self._told = ""
        self._replaced()

    def _tell(self, error: StoreError) -> None:
        """Say once what happened to the file."""
        if str(error) != self._told:
            self._told = str(error)
            _log.error("%s", error)
