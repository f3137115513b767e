"""The scenario of streams: a drain by a foreign worker through a server.

Each form of the worker stands beside a bare echo of as many messages of the same lengths over the
same transport, and beside the drain by a worker that has the database itself.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from windlass.cli.bench import crew
from windlass.cli.bench.child import Form, Orders, StreamTarget, make_app
from windlass.cli.bench.heaps import beside_clean
from windlass.cli.bench.run import Measured, Meter, Run, check, drain, load, rounds
from windlass.cli.bench.served import Served, bare_echo, windlass_serve
from windlass.cli.bench.site import Address

FORMS: dict[Form, int] = {"singly": 128, "together": 512}
"""How many requests each form keeps open."""
_NOWHERE = Address("", "", "full")
"""A foreign worker has no database."""
_NEEDED = ("grpc", "uvicorn", "zttp", "google.protobuf")


def is_possible() -> bool:
    """Whether what a server needs is installed."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


async def stream(run: Run) -> list[dict[str, Any]]:
    """A full queue, emptied through a server: message by message, and with those that arrive
    together answered together."""
    clean: list[Measured] = []
    found: dict[Form, list[tuple[Measured, Measured]]] = {form: [] for form in FORMS}
    for _ in rounds(run, "stream"):
        clean.append(await drain(run, run.site.fresh("own")))
        for form in FORMS:
            run.tell(f"stream: {form}, {run.jobs:,} jobs")
            found[form].append((await _echoed(run, form), await _served(run, form)))
    return [
        beside_clean(
            "stream",
            [echo for echo, _ in found[form]],
            clean,
            [own for _, own in found[form]],
            form=form,
            open=FORMS[form],
        )
        for form in FORMS
    ]


async def _echoed(run: Run, form: Form) -> Measured:
    async with bare_echo() as served:
        echoed = await _timed(run, form, served, is_echo=True)
    # No database has a part in it.
    return Measured(echoed.jobs, echoed.seconds, echoed.cpu)


async def _served(run: Run, form: Form) -> Measured:
    """The database counts what is left."""
    address = run.site.fresh("own")
    async with make_app(address) as app:
        await load(app, run.jobs)
        run.site.tidy(address)
        async with windlass_serve(address) as served:
            measured = await _timed(run, form, served, is_echo=False)
        await check(app, 0)
    return measured


async def _timed(run: Run, form: Form, served: Served, *, is_echo: bool) -> Measured:
    """The CPU is the server's."""
    target = StreamTarget(served.port, form, FORMS[form], is_echo)
    orders = Orders(_NOWHERE, jobs=run.jobs, stream=target)
    async with crew.hired("stream", orders) as children:
        await crew.all_ready(children)
        meter, before = Meter(run.site), served.cpu
        began = crew.begin(children)
        ended = await crew.all_settled(children, run.jobs)
        after = served.cpu
        cpu = 0.0 if before is None or after is None else after - before
        measured = meter.stop(run.jobs, (ended - began) / 1e9, cpu)
        for child in children:
            child.finish()
            await child.wait()
    return measured
