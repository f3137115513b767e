"""What every command shares: examples and exit codes in its help, errors in one line.

Exit codes: 0 done, 1 failed, 2 wrong usage (a command line or a setting that cannot be used),
57 the schema is newer than this program.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Sequence
from typing import IO, Any

import click

from windlass.errors import (
    ConfigError,
    MissingExtraError,
    SchemaTooNewError,
    ValidationError,
    WindlassError,
)

DONE = 0
FAILED = 1
USAGE = 2
SCHEMA_TOO_NEW = 57

_EXIT_CODES = ("0 done · 1 failed · 2 wrong usage · 57 the schema is newer than this program",)


class CommandFailed(click.ClickException):
    """A failure to tell in one line: `windlass: what happened, what to do`."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(" ".join(message.split()))  # what it quotes may have line breaks
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance too

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"windlass: {self.message}", file=file, err=file is None)


class ExitCodes(click.Command):
    """A command with examples and exit codes in its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        for title, lines in (("Examples", self.examples), ("Exit codes", _EXIT_CODES)):
            with formatter.section(title):
                for line in lines:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise  # shows the help, which is no error line
        except click.UsageError as error:
            path = (error.ctx or ctx).command_path
            message = f"{error.format_message().rstrip('.')} (see {path} --help)"
            raise CommandFailed(message, USAGE) from error
        except WindlassError as error:
            if is_debugging():
                traceback.print_exc()
            raise CommandFailed(one_line(error), exit_code_of(error)) from error
        except OSError as error:
            if error.filename is None:
                raise  # no file or directory that the user could mend
            if is_debugging():
                traceback.print_exc()
            may_not = isinstance(error, PermissionError)
            advice = "give this user the right to it" if may_not else "mend what is there"
            raise CommandFailed(
                f"{error.filename}: {error.strerror}; {advice}, or correct the path"
            ) from error


class Command(ExitCodes):
    """A plain command."""


def exit_code_of(error: WindlassError) -> int:
    match error:
        case SchemaTooNewError():
            return SCHEMA_TOO_NEW
        case MissingExtraError():
            return FAILED
        case ConfigError() | ValidationError():
            return USAGE
        case _:
            return FAILED


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__


def is_debugging() -> bool:
    """Whether errors come with their traceback: `--log-level debug`, or WINDLASS_LOG_LEVEL."""
    asked = os.environ.get("WINDLASS_LOG_LEVEL", "").lower() == "debug"
    return asked or logging.getLogger("windlass").level == logging.DEBUG
