"""The systems that are compared. Each module describes one of them and says how it is driven."""

from __future__ import annotations

from benchmarks.systems import bare, graphile, huey, pgqueuer, procrastinate, windlass
from benchmarks.systems.base import System

WINDLASS = windlass.SYSTEM
BARE = bare.SYSTEM
GRAPHILE = graphile.BATCHED
GRAPHILE_DEFAULT = graphile.DEFAULT
PGQUEUER_100 = pgqueuer.BY_100
PGQUEUER_500 = pgqueuer.BY_500
PROCRASTINATE = procrastinate.SYSTEM
HUEY = huey.DURABLE
HUEY_UNSAFE = huey.UNSAFE

SYSTEMS: tuple[System, ...] = (
    *(WINDLASS, BARE, GRAPHILE, GRAPHILE_DEFAULT),
    *(PGQUEUER_100, PGQUEUER_500, PROCRASTINATE, HUEY, HUEY_UNSAFE),
)
"""Windlass first: the ratios of the report are to the first one measured."""
