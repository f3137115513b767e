"""The pytest plugin: it comes with Windlass and is there without any import.

def test_signup(windlass_testing):
    windlass_testing(app)       # your own App, on an empty memory:// store for this test
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from windlass.app import App
from windlass.clock import Clock
from windlass.testing.clock import FakeClock


@pytest.fixture
def windlass_testing() -> Iterator[Callable[..., App]]:
    """A function that puts an App on a store of its own until the test ends.

    `windlass_testing(app)` uses `memory://`; `url=` and `clock=` choose others. The app's own
    store, and whatever is in it, is untouched and back in place afterwards.
    """
    with ExitStack() as stack:

        def use(app: App, url: str = "memory://", *, clock: Clock | None = None) -> App:
            return stack.enter_context(app.override(url, clock=clock))

        yield use


@pytest.fixture
def windlass_clock() -> FakeClock:
    """A clock that moves only when told: `clock.advance(60)`. Give it to `windlass_testing`."""
    return FakeClock()
