"""Files of jobs: one JSON object a line, every line checked before anything is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import click
import msgspec

from windlass.cli.base import CommandFailed
from windlass.cli.values import parse_instant
from windlass.client import Preparer
from windlass.errors import ValidationError
from windlass.model.job import JobSpec
from windlass.model.names import KeyMode
from windlass.tasks.registry import Registry


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """What a line may say."""

    task: str
    payload: Any = None
    queue: str | None = None
    run_at: str | None = None
    max_attempts: int | None = None
    key: str | None = None
    key_mode: KeyMode = "replace"
    priority: int | None = None
    flags: list[str] | None = None
    strict: bool | None = None

    def spec(self) -> JobSpec:
        return JobSpec(
            task=self.task,
            payload=self.payload,
            queue=self.queue,
            run_at=None if self.run_at is None else parse_instant(self.run_at),
            max_attempts=self.max_attempts,
            key=self.key,
            key_mode=self.key_mode,
            priority=self.priority,
            flags=self.flags,
            strict=self.strict,
        )


def read_specs(file: IO[bytes], max_payload: int) -> list[JobSpec]:
    """The jobs of a file; blank lines are skipped. The first bad line ends it, by its number."""
    decode = msgspec.json.Decoder(Line).decode
    check = Preparer(Registry(), lambda: max_payload).prepare
    specs: list[JobSpec] = []
    try:
        lines = file.read().splitlines()
    except OSError as error:
        raise CommandFailed(f"{file.name} cannot be read: {error.strerror}") from error
    with _progress(lines) as numbered:
        for number, line in numbered:
            if not line.strip():
                continue
            try:
                spec = decode(line).spec()
                check([spec])
            except (msgspec.MsgspecError, UnicodeError, ValidationError, RecursionError) as e:
                path = getattr(file, "name", "-")  # a stream in place of standard input has none
                name = "standard input" if path in ("-", "<stdin>") else path
                raise CommandFailed(f"{name}, line {number}: {_what(e)}; nothing was stored") from e
            specs.append(spec)
    return specs


def _what(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return str(error)


@contextmanager
def _progress(lines: Sequence[bytes]) -> Iterator[Iterator[tuple[int, bytes]]]:
    """The lines with their numbers, and a bar on a terminal while they are read."""
    numbered = enumerate(lines, start=1)
    if not sys.stderr.isatty():
        yield iter(numbered)
        return
    with click.progressbar(numbered, len(lines), label="jobs", file=sys.stderr) as bar:
        yield iter(bar)
