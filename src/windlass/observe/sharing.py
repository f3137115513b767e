"""Several processes, one answer: any process of a group tells the figures of all.

A supervisor makes a folder. Each of its processes writes its own figures there, once a second if
they changed, and before it tells them: so what was told once is in the folder, whatever becomes of
the process. Whichever is asked adds up what all have written. When a process has ended, the
supervisor adds its counters to the file `ended`, so that no counter of the group ever goes back;
its gauges are gone with it. A process that is killed takes along what it counted since it last
wrote.

Readers hold the folder's lock shared and the supervisor holds it alone, so that no reader counts a
process twice, or leaves it out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from windlass.observe.snapshot import Snapshot, decode, encode

WRITE_EVERY = 1.0

_ENDED = "ended"
_LOCK = "lock"
_SUFFIX = ".figures"


class SharedFigures:
    """One process's part in the group. `look` is that process's own figures."""

    def __init__(self, folder: Path, look: Callable[[], Snapshot]) -> None:
        self._folder = folder
        self._own = folder / f"{os.getpid()}{_SUFFIX}"
        self._look = look
        self._lock = threading.Lock()
        self._written = b""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-figures", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write for the last time."""
        self._stop.set()
        self._thread.join()
        self._write()

    def look(self) -> Snapshot:
        """Those of all processes."""
        found = self._write()
        with _locked(self._folder, fcntl.LOCK_SH):
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path != self._own:
                    found.merge(_read(path))
            found.merge(_read(self._folder / _ENDED), has_ended=True)
        return found

    def _run(self) -> None:
        while not self._stop.wait(WRITE_EVERY):
            self._write()

    def _write(self) -> Snapshot:
        """What was written: this process's figures now."""
        with self._lock:
            found = self._look()
            data = encode(found)
            if data != self._written:
                with contextlib.suppress(OSError):  # the folder goes with the supervisor
                    _replace(self._own, data)
                    self._written = data
        return found


def keep_ended(folder: Path, process: int) -> None:
    """A process of the group has ended: keep what it had counted."""
    path = folder / f"{process}{_SUFFIX}"
    with _locked(folder, fcntl.LOCK_EX):
        if path.exists():
            kept = _read(folder / _ENDED)
            kept.merge(_read(path), has_ended=True)
            _replace(folder / _ENDED, encode(kept))
            path.unlink()


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    with (folder / _LOCK).open("ab") as file:
        fcntl.flock(file, how)
        yield


def _read(path: Path) -> Snapshot:
    """What a process wrote; nothing for one that has not written yet."""
    try:
        return decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return Snapshot()


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_suffix(f".{os.getpid()}.draft")
    draft.write_bytes(data)
    draft.replace(path)
