"""Metrics for programs that start workers of their own; `docs/monitoring.md` says how.

It needs the extra `metrics`.
"""

from windlass.observe.instruments import Instruments
from windlass.observe.prometheus import MetricsCollector

__all__ = ["Instruments", "MetricsCollector"]
