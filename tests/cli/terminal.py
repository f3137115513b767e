"""A real terminal for a program: a tmux of its own, whose screen and keys are the test's."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cli.program import wait_until
from tests.patience import PATIENCE


class Terminal:
    """A shell in a window of so many columns and rows."""

    def __init__(
        self, tmux: str, folder: Path, environment: Mapping[str, str], width: int, height: int
    ) -> None:
        self._tmux = tmux
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self._environment.pop("TMUX", None)
        self._folder = folder
        self._name = f"windlass-{os.getpid()}-{secrets.token_hex(4)}"
        shell = ("bash", "--norc", "--noprofile", "-i")
        size = ("-x", str(width), "-y", str(height))
        self._do("-f", "/dev/null", "new-session", "-d", *size, *shell)
        self._pid = int(self._do("display-message", "-p", "#{pid}"))
        self.type("PS1='$ '")
        self.press("Enter")

    def _do(self, *arguments: str) -> str:
        return subprocess.run(
            (self._tmux, "-u", "-L", self._name, *arguments),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        ).stdout

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._do("capture-pane", "-p")

    @property
    def is_in_full_screen(self) -> bool:
        """Whether a program has taken the whole screen, and hides what was there."""
        return self._do("display-message", "-p", "#{alternate_on}").strip() == "1"

    @property
    def has_cursor(self) -> bool:
        return self._do("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def type(self, text: str) -> None:
        self._do("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """By tmux's names: Enter, Tab, BTab, Up, C-z …"""
        self._do("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, what: str, look: Callable[[str], object] | None = None) -> str:
        """The screen, once it shows this text, or `look` finds in it what it is to find."""
        seen = ""

        def shown() -> bool:
            nonlocal seen
            seen = self.text
            return bool(what in seen if look is None else look(seen))

        try:
            wait_until(f"{what!r} on the screen", shown)
        except AssertionError as error:
            raise AssertionError(f"{error}; there was:\n{seen}") from None
        return seen

    def close(self) -> None:
        """Leave nothing behind; to close it again does nothing."""
        if not Path(f"/proc/{self._pid}").exists():
            return
        self._do("kill-server")
        wait_until("the end of tmux", lambda: not Path(f"/proc/{self._pid}").exists())
