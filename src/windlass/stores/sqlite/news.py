"""News for subscribers: what other connections committed, and when the next job is due.

SQLite tells nothing by itself, so while there is a subscriber the writer thread looks every few
milliseconds: `PRAGMA data_version` changes when another connection has committed, and then one
statement says whether anything is claimable and when the next scheduled job is due.
"""

from __future__ import annotations

import logging
import sqlite3

import msgspec

from windlass.clock import SYSTEM, Clock
from windlass.errors import StoreError
from windlass.store.hints import Hints
from windlass.stores.sqlite.connection import Session, is_busy
from windlass.stores.sqlite.open_file import OpenFile

LOOK_SOON = 0.005
LOOK_LATER = 0.04
"""Seconds between looks for other processes' commits, while there is a subscriber: soon while
there is news now and then, later when there was none for a while. Waking up is what it costs."""

_A_WHILE = 2.0

_log = logging.getLogger("windlass.sqlite")
_decode = msgspec.json.Decoder(tuple[int, int | None]).decode


class News:
    """The looks of one writer thread."""

    def __init__(self, path: str, clock: Clock, hints: Hints) -> None:
        self._path = path
        self._clock = clock
        self._hints = hints
        self._version: int | None = None
        """The data_version that was looked at last."""
        self._looked_at = 0.0
        self._news_at = 0.0
        self._interval = LOOK_SOON
        self.looks = 0

    @property
    def interval(self) -> float | None:
        """Seconds until the next look; None while there is no subscriber."""
        return self._interval if self._hints else None

    def forget(self) -> None:
        """Another file is used: what was seen in the one before says nothing about it."""
        self._version = None

    def look(self, file: OpenFile) -> None:
        """Tell subscribers when another connection committed something worth a claim, and when
        the next job is due, which that commit may have changed."""
        now = SYSTEM.monotonic()
        if not self._hints or now - self._looked_at < self._interval * 0.9:
            return
        self._looked_at = now
        self.looks += 1
        try:
            file.check()
            version = file.db.connection.execute("PRAGMA data_version").fetchone()[0]
            if self._version == version:
                if now - self._news_at > _A_WHILE:
                    self._interval = LOOK_LATER
                return
            self._interval = LOOK_SOON
            self._news_at = now
            is_first, news = self._version is None, _decode(file.db.value("peek_news"))
        except sqlite3.Error as error:
            if not is_busy(error):
                _log.warning("cannot look for news in %s: %s", self._path, error)
            return
        except StoreError:
            return  # told when it was found out
        self._version = version
        ready, due = news
        if ready or is_first:
            self._hints.ready()
        self._tell_due(due)

    def tell(self, db: Session, *, made_ready: bool) -> None:
        """Tell subscribers what a transaction of this thread's own has changed."""
        if made_ready:
            self._hints.ready()
        if db.made_scheduled and self._hints:
            try:
                self._tell_due(db.value("next_due"))
            except sqlite3.Error as error:  # what was scheduled is committed: a poll will find it
                _log.debug("cannot read the next due time in %s: %s", self._path, error)

    def _tell_due(self, due: int | None) -> None:
        if due is not None:
            self._hints.due(max(0.0, (due - self._clock.now()) / 1e6))
