"""What the parts of one worker have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windlass.clock import Clock
from windlass.observe.events import Events
from windlass.observe.logs import Scoped

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments


@dataclass(frozen=True, slots=True)
class Tools:
    """The clock, the log and the events of one worker, and its instruments if it has any. `worker`
    is what its events name."""

    clock: Clock
    logger: Scoped
    events: Events
    worker: Any
    instruments: Instruments | None = None
