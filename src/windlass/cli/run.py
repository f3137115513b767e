"""`windlass run`: one worker in this process, or a supervisor of several."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from windlass import config
from windlass.app import App
from windlass.cli import supervised
from windlass.cli.base import DONE, Command, CommandFailed, exit_code_of, one_line
from windlass.cli.locate import find_app, source_folder
from windlass.cli.metrics import MetricsPort, metrics_port, shared_port
from windlass.cli.place import connection_option, log_level_option, schema_option
from windlass.clock import SYSTEM
from windlass.engine.signals import stop_signals
from windlass.errors import (
    ConfigError,
    StoreBusyError,
    StoreUnavailableError,
    TaskError,
    WindlassError,
)
from windlass.observe import logs
from windlass.runner import Runner
from windlass.tasks.schedules import CRONTAB, crontab_beside

_DEFAULT_FOLDER = "tasks"

_LAST_WORDS = 2.0
"""Seconds that what handlers left behind has to end after the worker did."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Seconds between tries to open a database that is away when the worker starts."""


def _complete_task(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the tasks folder's files; tasks of a module would need its import."""
    root = Path(ctx.params.get("tasks") or _DEFAULT_FOLDER)
    found = (path.relative_to(root).with_suffix("") for path in root.rglob("[!_.]*.py"))
    return [CompletionItem(str(name)) for name in found if str(name).startswith(incomplete)]


@click.command(
    cls=Command,
    examples=(
        "windlass run shop:app                     # the app in shop.py, or in package shop",
        "windlass run path/to/shop.py:app -j 20    # 20 jobs at a time",
        "windlass run                              # the folder tasks/ and the file crontab",
        "windlass run shop:app --once              # run what is ready, then end",
        "windlass run shop:app --processes 4       # four worker processes",
        "windlass run --watch                      # start again when a file changes",
        "windlass run shop:app --metrics-port 9464 # metrics for Prometheus",
        "windlass run shop:app -c postgresql://worker@db.example/shop -s jobs --migrate check",
    ),
)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@connection_option
@schema_option
@click.option("--schema-only", is_flag=True, help="Install or update the schema, then end.")
@click.option(
    "--migrate",
    type=click.Choice(["auto", "check", "never"]),
    help="The schema: install or update it, refuse to start unless it is up to date, or leave it"
    " alone.  [default: auto]",
)
@click.option("--once", is_flag=True, help="Run what is ready, and what it makes ready, then end.")
@click.option("-w", "--watch", is_flag=True, help="Start again when the code changes.")
@click.option("--tasks", metavar="DIR", help="The tasks folder.  [default: tasks]")
@click.option(
    "--crontab",
    metavar="FILE",
    help="The schedules.  [default: the file crontab beside the tasks folder]",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 10_000), help="Jobs at a time (slots).  [default: 10]"
)
@click.option(
    "-m",
    "--max-pool-size",
    type=click.IntRange(1),
    help="The most PostgreSQL connections handlers share; a worker has up to six more of its own."
    "  [default: 10]",
)
@click.option(
    "--poll-interval",
    type=click.IntRange(1, 300_000),
    metavar="MS",
    help="How often an idle worker looks by itself, in milliseconds.  [default: 2000]",
)
@click.option(
    "--no-prepared-statements",
    is_flag=True,
    help="Rely on nothing that a transaction pooler forgets. Only means something for PostgreSQL.",
)
@click.option(
    "--no-listen",
    is_flag=True,
    help="Only poll, never LISTEN. Only means something for PostgreSQL.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Worker processes to start and keep alive.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How long a stop waits for running jobs.  [default: 25]",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="[default: text]")
@log_level_option(expose_value=True)
@click.option("--forbidden-flag", metavar="FLAG", multiple=True, help="Skip jobs with this flag.")
@click.option(
    "--only",
    metavar="TASK",
    multiple=True,
    shell_complete=_complete_task,
    help="Run this task only; may be repeated.",
)
@click.option(
    "--exclude",
    metavar="TASK",
    multiple=True,
    shell_complete=_complete_task,
    help="Leave this task to others; may be repeated.",
)
@click.option(
    "--tenant",
    metavar="NAME",
    multiple=True,
    help="Run jobs of this tenant only, '' for the default one; may be repeated.  [default: all]",
)
@click.option("--worker-name", metavar="NAME", help="The readable part of the worker's id.")
@click.option(
    "--metrics-port",
    metavar="[HOST:]PORT",
    help="Show metrics for Prometheus at /metrics of this port, on loopback unless a host is named."
    "  [default: none]",
)
@click.option(
    "--max-jobs", type=click.IntRange(1), help="Start the worker process anew after so many jobs."
)
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Work on jobs until stopped.

    MODULE:APP names the App; the current folder is searched first. Without it the functions of
    the folder tasks/ are the tasks, and the file crontab beside it has their schedules.

    SIGTERM, SIGHUP or Ctrl-C takes no more jobs, hands back what has not started and waits for
    what runs; a second one waits no longer, and a third ends the process at once. Under nohup
    SIGHUP means nothing.

    A database that does not answer yet is waited for, except with --once.
    """
    if options["once"] and options["schema_only"]:
        raise click.UsageError("--once and --schema-only exclude each other.", ctx)
    if options["schema_only"] and options["migrate"] not in (None, "auto"):
        raise click.UsageError(
            f"--schema-only and --migrate {options['migrate']} exclude each other.", ctx
        )
    if options["target"] and options["tasks"]:
        raise click.UsageError("Give MODULE:APP or --tasks, not both.", ctx)
    supervisor = supervised.connect()
    wants_children = options["processes"] > 1 or options["watch"] or options["max_jobs"]
    if supervisor is None and wants_children and not options["schema_only"]:
        ctx.exit(_supervise(options))
    port = None if options["schema_only"] else metrics_port(options["metrics_port"])
    ctx.call_on_close(leave_early_on_signals())
    thresholds = gc.get_threshold()
    gc.set_threshold(0)  # modules being imported are no garbage
    ctx.call_on_close(lambda: _restore(thresholds))
    app = _make_app(options)
    logs.configure(
        options["log_level"] or app.settings.log_level,
        options["log_format"] or app.settings.log_format,
    )
    if options["schema_only"]:
        asyncio.run(_migrate(app))
        return
    _check_names(ctx, app, options)
    _tell_of_crontab(app, options)
    with asyncio.Runner(loop_factory=loop_factory()) as worker:
        code = worker.run(_work(app, options, supervisor, thresholds, port))
    ctx.exit(code)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed: it wakes up sooner and costs handlers that wait less."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def leave_early_on_signals() -> Callable[[], None]:
    """Before the worker runs there is nothing to drain: a signal simply ends the process.

    It does so without an exception, which the user's module could catch while it is imported.
    Returns how to give the signals back if no worker runs after all.
    """
    before = {number: signal.signal(number, _leave) for number in stop_signals()}

    def give_back() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is _leave:
                signal.signal(number, handler)

    return give_back


def _leave(*_: object) -> None:
    os._exit(DONE)


def _make_app(options: Mapping[str, Any]) -> App:
    for_app = {
        "url": options["connection"],
        "schema": options["schema"],
        "max_pool_size": options["max_pool_size"],
        "listen": False if options["no_listen"] else None,
        "prepared_statements": False if options["no_prepared_statements"] else None,
        "migrate": "auto" if options["schema_only"] else options["migrate"],
        "tenant": options["tenant"][0] if len(options["tenant"]) == 1 else None,
    }
    if options["target"]:
        app = find_app(options["target"])
        if any(value is not None for value in for_app.values()):
            app.configure(**for_app)
        return app
    folder = None if options["schema_only"] else _tasks_folder(options)
    return App(task_directory=folder, **for_app)


def _tasks_folder(options: Mapping[str, Any]) -> Path:
    folder = Path(options["tasks"] or _DEFAULT_FOLDER)
    if options["tasks"] is None and not folder.is_dir():
        raise ConfigError(
            "there is no tasks/ folder here; name your app (windlass run MODULE:APP) or your"
            " folder (--tasks DIR)"
        )
    sys.path.insert(0, str(Path.cwd()))
    return folder


def _check_names(ctx: click.Context, app: App, options: Mapping[str, Any]) -> None:
    for flag in ("only", "exclude"):
        for name in options[flag]:
            if app.registry.find(name) is None:
                known = ", ".join(app.registry.names) or "none"
                raise click.UsageError(
                    f"--{flag}: no task is called {name!r}; the tasks here are: {known}", ctx
                )


def _tell_of_crontab(app: App, options: Mapping[str, Any]) -> None:
    """The file beside a tasks folder is read by itself, and one beside a module is not."""
    is_named = options["crontab"] or app.settings.crontab_file
    if options["target"] and not is_named and not options["once"] and Path(CRONTAB).is_file():
        logging.getLogger("windlass").info(
            "there is a file crontab here, which is not read; --crontab crontab reads it"
        )


async def _migrate(app: App) -> None:
    try:
        await app.migrate()
    finally:
        await app.close()


async def _work(
    app: App,
    options: Mapping[str, Any],
    supervisor: supervised.Supervised | None,
    thresholds: tuple[int, int, int],
    port: MetricsPort | None,
) -> int:
    """The exit code. Handlers that would not stop end with the process, at once."""
    threads = ThreadPoolExecutor(thread_name_prefix="windlass-default")
    asyncio.get_running_loop().set_default_executor(threads)
    code = DONE
    try:
        if not options["once"]:
            await wait_for_database(app)
        if port is not None:
            port.start(app)
        runner = await _start(app, options)
        _collect_garbage(thresholds)
        if supervisor is not None:
            supervisor.say_ready()
        try:
            await runner.wait()
        except WindlassError as error:
            if not runner.handlers_left:
                raise
            code = exit_code_of(error)
            CommandFailed(one_line(error), code).show()
        if supervisor is not None and runner.worker.why == "max_jobs":
            code = supervised.AGAIN
        if runner.handlers_left:
            _end_process(code)  # their jobs were handed back, and may begin elsewhere already
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)  # all that is left is to close and end
    finally:
        if port is not None:  # a scrape may be waiting for this event loop
            await asyncio.to_thread(port.close)
        await app.close()
    if not await _is_alone(threads):
        _end_process(code)
    return code


async def _is_alone(threads: ThreadPoolExecutor) -> bool:
    """Whether no task and no thread that a handler began keeps the process from ending."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=_LAST_WORDS))[1]:
        return False
    threads.shutdown(wait=False, cancel_futures=True)
    end = SYSTEM.monotonic() + _LAST_WORDS
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, end - SYSTEM.monotonic()))
            if thread.is_alive():
                return False
    return True


def _end_process(code: int) -> NoReturn:
    """End without waiting for anything that runs; what was written so far is not lost."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def wait_for_database(app: App) -> None:
    """Open the database, again and again while it is only away: a worker may start before it.

    Signals end the process meanwhile. What waiting cannot mend is raised at once.
    """
    logger = logging.getLogger("windlass")
    pause = _FIRST_PAUSE
    while True:
        try:
            return await app.open()
        except (StoreBusyError, StoreUnavailableError) as error:
            if isinstance(error, StoreUnavailableError) and not error.is_temporary:
                raise
            wait = pause * random.uniform(0.8, 1.0)  # noqa: S311
            logger.warning(
                "the database does not answer yet, trying again in %.1f s: %s",
                wait,
                one_line(error),
            )
        await asyncio.sleep(wait)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _collect_garbage(thresholds: tuple[int, int, int]) -> None:
    """From now on, unless the user's module has a mind of its own. What is there stays: no
    collection need look at it again, nor the one at the end of the process."""
    gc.freeze()
    _restore(thresholds)


def _restore(thresholds: tuple[int, int, int]) -> None:
    if gc.get_threshold()[0] == 0:
        gc.set_threshold(*thresholds)


async def _start(app: App, options: Mapping[str, Any]) -> Runner:
    poll_ms = options["poll_interval"]
    try:
        return await app.run(
            concurrency=options["jobs"],
            poll_interval=None if poll_ms is None else poll_ms / 1000,
            grace=options["grace"],
            worker_name=options["worker_name"],
            forbidden_flags=list(options["forbidden_flag"]) or None,
            only=options["only"],
            exclude=options["exclude"],
            max_jobs=options["max_jobs"],
            once=options["once"],
            tenants=options["tenant"] or None,
            crontab_file=options["crontab"],
        )
    except WindlassError:
        raise
    except Exception as error:  # the app's own lifespan: whatever it met, no worker can run
        raise TaskError(
            f"the worker could not start: {type(error).__name__}: {one_line(error)}"
            " (--log-level debug shows where)"
        ) from error


def _supervise(options: Mapping[str, Any]) -> int:
    from windlass.cli.supervisor import Supervisor
    from windlass.cli.watch import Watcher

    settings = config.load({name: options[name] for name in ("log_level", "log_format")})
    logs.configure(settings.log_level, settings.log_format)
    watcher = None
    if options["watch"]:
        folder = None if options["target"] else _tasks_folder(options)
        crontab = options["crontab"] or settings.crontab_file
        if crontab is None and folder is not None:
            crontab = crontab_beside(folder)
        watcher = Watcher(
            folder or source_folder(options["target"]),
            every_file=folder is not None,
            crontab=None if crontab is None else Path(crontab).absolute(),
        )
    command = [sys.executable, "-P", "-m", "windlass", *sys.argv[1:]]
    with shared_port(options["metrics_port"]) as port:
        supervisor = Supervisor(
            command,
            options["processes"],
            watcher,
            descriptors=port.descriptors,
            environment=port.environment,
            on_end=port.keep,
        )
        return asyncio.run(supervisor.run())
