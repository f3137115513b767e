"""The terminal: its keys, its size, and one write for each frame.

A frame is written over the one before without erasing it, between the marks of a synchronized
update, so nothing flickers. What the terminal was like before comes back when it is left, also
while the program is stopped (Ctrl-Z).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.control import Control
from rich.screen import Screen as Filled
from rich.text import Text

from windlass.cli.top.frame import Size
from windlass.cli.top.glyphs import Glyphs

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;]*|O)?$")
_NAMES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "backtab",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "7~": "home",
    "8~": "end",
}


class Keys:
    """From what a terminal sends to names of keys: one sign, or `up`, `tab`, `pagedown` …"""

    def __init__(self) -> None:
        self._begun = ""

    def read(self, sent: bytes) -> list[str]:
        """The keys in it. The beginning of a key waits for the rest."""
        text = self._begun + sent.decode("utf-8", "ignore")
        self._begun = ""
        found: list[str] = []
        while text:
            if sequence := _SEQUENCE.match(text):
                name = _NAMES.get(sequence[0][2:])
                found += [] if name is None else [name]
                text = text[sequence.end() :]
            elif _BEGUN.match(text):
                self._begun, text = text, ""
            else:
                found += {"\t": ["tab"], "\x1b": []}.get(text[0], [text[0]])
                text = text[1:]
        return found


class Screen:
    """The terminal of this process, ours between `__enter__` and `__exit__`.

    `pressed` is called for each key, `changed` when all has to be drawn anew, `gone` when there is
    no terminal any more.
    """

    def __init__(
        self,
        pressed: Callable[[str], None],
        changed: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        self._console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=False)
        self._pressed, self._changed, self._gone = pressed, changed, gone
        self._keys = Keys()
        self._input = sys.stdin.fileno()
        self._before: list[Any] = []
        self.glyphs = Glyphs(is_ascii=self._console.options.ascii_only)

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._take()
        loop.add_reader(self._input, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._changed)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._input)
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGTSTP)
        with contextlib.suppress(OSError, termios.error):  # it may be gone
            self._give_back()

    @property
    def size(self) -> Size:
        return Size(*self._console.size)

    def draw(self, lines: Sequence[Text]) -> None:
        try:
            with self._console:  # one write
                self._console.out(_BEGIN, end="")
                self._console.control(Control.home())
                self._console.print(Filled(Group(*lines)), end="")
                self._console.out(_END, end="")
        except OSError:
            self._gone()

    def _take(self) -> None:
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _give_back(self) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _read(self) -> None:
        try:
            sent = os.read(self._input, 1024)
        except OSError:
            sent = b""
        if not sent:
            self._gone()
        for key in self._keys.read(sent):
            self._pressed(key)

    def _stop(self) -> None:
        """Ctrl-Z; returns when the shell goes on with us."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._changed()
