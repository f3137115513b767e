"""Log records: standard library, under the logger `windlass`, never the root logger.

Every record carries `label` (core, worker, job, cli), and where they apply `worker_id`, `task`,
`job_id` and `chain`. A library stays silent until its program adds a handler; `configure` is for
the command line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

FIELDS = ("label", "worker_id", "task", "job_id", "chain")
LogFormat = Literal["text", "json"]


class Scoped(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds its scope to each record, and keeps what the caller adds."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        extra = kwargs.get("extra")
        kwargs["extra"] = {**(self.extra or {}), **extra} if extra else self.extra
        return msg, kwargs

    def scope(self, **more: Any) -> Scoped:
        return Scoped(self.logger, {**(self.extra or {}), **more})


def scoped(logger: logging.Logger | None, label: str, **fields: Any) -> Scoped:
    return Scoped(logger or logging.getLogger("windlass"), {"label": label, **fields})


class TextFormatter(logging.Formatter):
    """`12:00:01.123 INFO  [job 7 welcome] text`, for people."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        line = f"{time} {record.levelname:<7} [{_scope(record)}] {record.getMessage()}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def _scope(record: logging.LogRecord) -> str:
    fields: Mapping[str, Any] = record.__dict__
    if fields.get("job_id") is not None:
        chain = "" if fields.get("chain") is None else f" of chain {fields['chain']}"
        return f"job {fields['job_id']} {fields.get('task', '')}".rstrip() + chain
    is_ours = record.name.partition(".")[0] == "windlass"
    return str(fields.get("label", "core" if is_ours else record.name))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for field in FIELDS:
            if field in record.__dict__:
                line[field] = record.__dict__[field]
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(
    level: str = "info", form: LogFormat = "text", stream: TextIO | None = None
) -> logging.Handler:
    """Show `windlass` records on `stream` (standard error); returns the handler to remove it.

    Warnings of libraries that have no handler are shown there in the same form: the standard
    library would print their bare text in between.
    """
    handler = _shown(stream, form)
    logging.lastResort = _shown(stream, form)
    logging.lastResort.setLevel(logging.WARNING)
    logger = logging.getLogger("windlass")
    for old in [h for h in logger.handlers if getattr(h, "windlass_cli", False)]:
        logger.removeHandler(old)
    handler.windlass_cli = True  # type: ignore[attr-defined]
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    return handler


def _shown(stream: TextIO | None, form: LogFormat) -> logging.StreamHandler[TextIO]:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    return handler


def shown_logging() -> tuple[str, LogFormat] | None:
    """What `configure` was told, for a child process to show its records the same way."""
    logger = logging.getLogger("windlass")
    for handler in logger.handlers:
        if getattr(handler, "windlass_cli", False):
            is_json = isinstance(handler.formatter, JsonFormatter)
            return logging.getLevelName(logger.level), "json" if is_json else "text"
    return None
