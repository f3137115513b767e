"""Which modules read a clock of the machine other than through `windlass.clock`.

A clock that a module reads by itself cannot be replaced in a test, so the list is short and says
what each module needs it for. A name that ends in a slash stands for all modules of a folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass

SOURCES = Path(windlass.__file__).parent

WALL = "wall clock"
MONOTONIC = "monotonic clock"
LOOP = "event loop"

ALLOWED = {
    WALL: {
        "clock.py": "it is the clock",
        "cli/bench/limit.py": "rows of the bare SQL that a benchmark compares with",
        "cli/bench/limit_chains.py": "likewise",
    },
    MONOTONIC: {
        "clock.py": "it is the clock",
        "stores/postgres/": "limits of calls to a server, which answers in real time",
        "stores/postgres_connections/": "likewise",
        "stores/table/lifeline.py": "likewise",
        "stores/remote/lifeline.py": "likewise",
        "cli/bench/": "measurements",
    },
    LOOP: {
        "engine/slots.py": "how long jobs take and lie in the buffer; the end of the grace period",
        "engine/settler.py": "how long outcomes gather",
        "engine/engine.py": "what jobs' ends are compared with, for metrics",
        "engine/reporter.py": "how long a job took, for the log",
        "server/serving.py": "the end of the grace period, and of the last writes",
        "server/streams/dispatcher.py": "how long a look at the store took, and how long it rests",
        "server/streams/settlements.py": "how long a write took, for metrics",
        "server/streams/http2.py": "how long a connection is silent",
        "client/waiting.py": "the limits of wait_for and wait_for_chain",
        "cli/supervisor.py": "how long a child has lived",
        "stores/table/store.py": "the limit of waiting for a locked row",
        "stores/remote/channel.py": "when a call was sent, for the limits of the next ones",
        "stores/remote/link.py": "limits of calls to a server, which answers in real time",
        "stores/remote/stream.py": "when a server last gave a sign of life",
        "testing/virtual.py": "the virtual clock is the event loop's",
        "testing/contract/chains_at_once.py": "the limit of waiting for what was released",
        "testing/contract/concurrency.py": "the limit of waiting for threads",
    },
}

_OF_TIME = {
    **dict.fromkeys(("time", "time_ns", "localtime", "gmtime", "ctime", "asctime"), WALL),
    **dict.fromkeys(("strftime", "clock_gettime", "clock_gettime_ns"), WALL),
    **dict.fromkeys(("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"), MONOTONIC),
    **dict.fromkeys(("process_time", "process_time_ns", "thread_time"), MONOTONIC),
}
_OF_DATES = ("now", "utcnow", "today")


def clocks_read(source: str) -> Iterator[tuple[str, int]]:
    """The kinds of clock that a module reads, and where."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module="time", names=names):
                yield from ((_OF_TIME[n.name], node.lineno) for n in names if n.name in _OF_TIME)
            case ast.Attribute(value=ast.Name(id="time"), attr=name):
                if name in _OF_TIME:
                    yield _OF_TIME[name], node.lineno
            case (
                ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name)
                | ast.Attribute(value=ast.Attribute(attr="datetime" | "date"), attr=name)
            ):
                if name in _OF_DATES:
                    yield WALL, node.lineno
            case ast.Attribute(attr="time"):
                yield LOOP, node.lineno


def _readers() -> dict[str, dict[str, list[int]]]:
    """By kind and module, the lines that read a clock."""
    found: dict[str, dict[str, list[int]]] = {WALL: {}, MONOTONIC: {}, LOOP: {}}
    for file in sorted(SOURCES.rglob("*.py")):
        for kind, line in clocks_read(file.read_text(encoding="utf-8")):
            found[kind].setdefault(file.relative_to(SOURCES).as_posix(), []).append(line)
    return found


READERS = _readers()


@pytest.mark.parametrize("kind", ALLOWED)
def test_only_a_few_modules_read_a_clock_themselves(kind: str) -> None:
    places = tuple(ALLOWED[kind])
    others = {name: at for name, at in READERS[kind].items() if not name.startswith(places)}
    assert others == {}, f"read the {kind} through windlass.clock"


@pytest.mark.parametrize("kind", ALLOWED)
def test_the_list_names_no_module_without_need(kind: str) -> None:
    unused = [
        place
        for place in ALLOWED[kind]
        if not any(name.startswith(place) for name in READERS[kind])
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("import time\nend = time.monotonic() + 1", [MONOTONIC]),
        ("from time import perf_counter, sleep", [MONOTONIC]),
        ("import time\nread = time.time", [WALL]),
        ("import datetime\ndatetime.datetime.now(datetime.UTC)", [WALL]),
        ("from datetime import date, datetime\ndatetime.now(UTC), date.today()", [WALL, WALL]),
        ("asyncio.get_running_loop().time()", [LOOP]),
        ("end = self._loop.time() + 1", [LOOP]),
        ("import time\ntime.sleep(1)\nself._clock.monotonic()\nSYSTEM.now()", []),
    ],
)
def test_a_read_is_recognized(source: str, kinds: list[str]) -> None:
    assert [kind for kind, _ in clocks_read(source)] == kinds
