"""The tries of workers that cannot renew, in a small file beside the database.

While another connection holds SQLite's write lock no worker can renew, and none may lose its lease
for that. But nothing can be written into the database then, so a worker that waits writes the time
of its last try into a small file beside it, and a reaper believes it for one lease. So a live
worker keeps its jobs, however long that lock is held, and a dead one keeps them no longer for it.

The file has one place per worker, by the worker's number in the database: a time and its
complement. A place that is half written is being written, by a live worker.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_PLACE = struct.Struct(">qq")


class RenewalTries:
    """The times of the last tries, in microseconds of the monotonic clock."""

    def __init__(self, path: str) -> None:
        self._database = Path(path)
        self._file = Path(f"{path}-waiting")

    @property
    def name(self) -> str:
        return str(self._file)

    def record(self, worker: int, ticks: int) -> None:
        """This worker lives and waits. Raises OSError."""
        with self._open_to_write() as file:
            file.seek(worker * _PLACE.size)
            file.write(_PLACE.pack(ticks, ~ticks))

    def recent(self, workers: Sequence[tuple[int, int]], ticks: int) -> set[int]:
        """Of workers, as (number, lease), those that tried to renew less than a lease ago."""
        if not workers:
            return set()
        try:
            with self._file.open("rb", buffering=0) as file:
                return {worker for worker, lease in workers if _tried(file, worker, lease, ticks)}
        except FileNotFoundError:
            return set()

    def _open_to_write(self) -> BinaryIO:
        try:
            return self._file.open("r+b", buffering=0)
        except FileNotFoundError:
            # Made as SQLite makes its own files: with the rights of the database file.
            like = self._database.stat()
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _make_alike(descriptor, like)
                return os.fdopen(descriptor, "r+b", buffering=0)
            except BaseException:
                os.close(descriptor)
                raise


def _make_alike(descriptor: int, like: os.stat_result) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, like.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(descriptor, like.st_uid, like.st_gid)


def _tried(file: BinaryIO, worker: int, lease: int, ticks: int) -> bool:
    file.seek(worker * _PLACE.size)
    place = file.read(_PLACE.size)
    if len(place) < _PLACE.size:
        return False
    said: int
    complement: int
    said, complement = _PLACE.unpack(place)
    if said == complement == 0:
        return False  # a hole: no worker wrote here
    # What is said of a time to come was said before the machine was started again.
    return said != ~complement or ticks - lease < said <= ticks
