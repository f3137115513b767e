"""The systems that are compared. Each module describes one of them and says how it is driven."""

from __future__ import annotations

from benchmarks.systems import graphile, pgqueuer, procrastinate, windlass
from benchmarks.systems.base import System

SYSTEMS: tuple[System, ...] = (
    windlass.SYSTEM,
    graphile.BATCHED,
    graphile.DEFAULT,
    pgqueuer.BATCHED,
    pgqueuer.DEFAULT,
    procrastinate.SYSTEM,
)
"""Windlass first: the ratios of the report are to the first one measured."""
