"""What every test can rely on, however the tests were started."""

from __future__ import annotations

import gc
import signal

pytest_plugins = ["tests.leaks"]


def pytest_configure() -> None:
    """Programs that tests start inherit which signals are ignored, and some tests send signals.

    A shell starts what runs in its background with SIGINT ignored, and nohup ignores SIGHUP.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_int = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_int else signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """What collecting made stays until the end: without it a full collection of garbage, which some
    tests need after each case, takes a hundredth of the time."""
    gc.collect()
    gc.freeze()
