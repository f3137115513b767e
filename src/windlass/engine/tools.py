"""What the parts of one worker have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass.clock import Clock
from windlass.observe.events import Events
from windlass.observe.logs import Scoped


@dataclass(frozen=True, slots=True)
class Tools:
    """The clock, the log and the events of one worker. `worker` is what its events name."""

    clock: Clock
    logger: Scoped
    events: Events
    worker: Any
