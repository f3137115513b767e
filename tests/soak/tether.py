"""A process that ends with the one that started it, however that one ended."""

from __future__ import annotations

import os
import threading


def end_with_parent() -> None:
    """End this process at once when its standard input ends: only the parent holds the other end
    of that pipe, and a parent that is killed cannot stop its children itself."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be held when this process ends
            pass
        os._exit(70)

    threading.Thread(target=wait, name="tether", daemon=True).start()
