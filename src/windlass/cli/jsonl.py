"""Files of jobs: one JSON object a line, every line checked before anything is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import click
import msgspec

from windlass.cli.base import CommandFailed
from windlass.cli.values import parse_instant
from windlass.client import Preparer
from windlass.errors import ValidationError
from windlass.model.job import JobSpec
from windlass.model.names import KeyMode, OnBlockerFailure
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
    blockers: list[int] | None = None
    on_blocker_failure: OnBlockerFailure | None = None
    chain: bool = False
    key_window: float | None = None

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
            blockers=self.blockers,
            on_blocker_failure=self.on_blocker_failure,
            key_window=self.key_window,
        )


class Read(NamedTuple):
    """The jobs of a file, or the first jobs of its chains."""

    specs: list[JobSpec]
    are_chains: bool


def read_file(file: IO[bytes], max_payload: int) -> Read:
    """Blank lines are skipped. The first bad line ends it, by its number; a chain among jobs is
    one, because all of a file is stored in one step, or nothing."""
    decode = msgspec.json.Decoder(Line).decode
    preparer = Preparer(Registry(), lambda: max_payload)
    specs: list[JobSpec] = []
    are_chains: bool | None = None
    try:
        lines = file.read().splitlines()
    except OSError as error:
        raise CommandFailed(f"{file.name} cannot be read: {error.strerror}") from error
    with _progress(lines) as numbered:
        for number, line in numbered:
            if not line.strip():
                continue
            try:
                found = decode(line)
                if are_chains is None:
                    are_chains = found.chain
                if found.chain != are_chains:
                    raise ValidationError(
                        "chains and other jobs cannot be in one file; write two", field="chain"
                    )
                spec = found.spec()
                if are_chains:
                    preparer.prepare_chains([spec])
                else:
                    preparer.prepare([spec])
            except (msgspec.MsgspecError, UnicodeError, ValidationError, RecursionError) as e:
                path = getattr(file, "name", "-")  # a stream in place of standard input has none
                name = "standard input" if path in ("-", "<stdin>") else path
                raise CommandFailed(f"{name}, line {number}: {_what(e)}; nothing was stored") from e
            specs.append(spec)
    return Read(specs, bool(are_chains))


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
