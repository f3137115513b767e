"""A wall clock that a test sets for many processes at once, through a file."""

from __future__ import annotations

import itertools
from datetime import datetime
from pathlib import Path

from windlass.clock import SYSTEM, to_micros


class ShiftedClock:
    """The machine's wall clock plus the shift in a file; it runs on from where it was set."""

    def __init__(self, file: Path | str) -> None:
        self._file = Path(file)
        self._numbers = itertools.count(1)

    def now(self) -> int:
        return SYSTEM.now() + self._read()[1]

    def monotonic(self) -> float:
        return SYSTEM.monotonic()

    @property
    def setting(self) -> int:
        """The number of the last `set`, in whichever process it was."""
        return self._read()[0]

    def set(self, instant: datetime) -> None:
        """Make it that time in every process that has this clock. One process sets it."""
        shift = to_micros(instant) - SYSTEM.now()
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{next(self._numbers)} {shift}")
        draft.replace(self._file)  # nobody reads half a number

    def _read(self) -> tuple[int, int]:
        setting, shift = self._file.read_text().split()
        return int(setting), int(shift)
