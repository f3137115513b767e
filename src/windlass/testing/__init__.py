"""Help for tests, public: of applications that use Windlass, and of stores for it.

* `drain`, `drain_sync`, `assert_enqueued`, `assert_not_enqueued`, `assert_continued_with`: run
  and look at jobs.
* the pytest fixtures `windlass_testing` and `windlass_clock` (see `windlass.testing.plugin`).
* `FakeClock`: a clock under the test's hand. `run_virtual`: a whole event loop on virtual time.
* `FaultyStore`: a store that fails by a seeded plan.
* `windlass.testing.contract`: the suite that says what a store is.
"""

from windlass.testing.clock import FakeClock
from windlass.testing.faulty import FaultyStore
from windlass.testing.users import (
    Drained,
    assert_continued_with,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    drain_sync,
    enqueued,
)
from windlass.testing.virtual import (
    DeadlockError,
    VirtualClock,
    VirtualTimeoutError,
    run_virtual,
)

__all__ = [
    "DeadlockError",
    "Drained",
    "FakeClock",
    "FaultyStore",
    "VirtualClock",
    "VirtualTimeoutError",
    "assert_continued_with",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "drain_sync",
    "enqueued",
    "run_virtual",
]
