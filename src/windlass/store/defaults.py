"""What a store says about how it is best worked on."""

from __future__ import annotations

import msgspec

from windlass.model.retry import Retry


class WorkDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a store sets for workers whose options do not. Times are seconds; None sets nothing."""

    tasks: tuple[str, ...] = ()
    lease: float | None = None
    renew_every: float | None = None
    retry: Retry | None = None
    max_attempts: int | None = None
    max_resets: int | None = None
    prefetch: int | None = None
