"""What goes along with a job into a process of its own: the context of a trace, as headers."""

from __future__ import annotations

from contextvars import ContextVar

headers: ContextVar[dict[str, str] | None] = ContextVar("windlass_carried", default=None)
