"""What keeps happening to a site: each kind of fault is a loop in a thread of its own.

Everything is told to the ledger's checks where they must know of it: a worker that was killed ends
what it ran, and a transaction that was rolled back added nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.patience import PATIENCE
from tests.soak.sites import LEASE, AwayError, PostgresSite, Site
from windlass.errors import StoreError

FIRST_JOINED = 10**9
"""Numbers of jobs that are added in transactions of the rig's own begin here."""


@dataclass(frozen=True)
class Pace:
    """Seconds between faults of each kind, and how long some of them last."""

    kill: float = 10.0
    network: float = 20.0
    restart: float = 300.0
    hold: float = 7.0
    snapshot: float = 300.0
    snapshot_lasts: float = 60.0

    @classmethod
    def of(cls, seconds: float) -> Pace:
        """Often enough that each kind happens in the first sixth, which is the warm-up: what a
        fault makes grow once has then grown. A run of half an hour has the figures above.

        The server is restarted less often, and old snapshots are held less often. With each crash
        it forgets which tables to vacuum, vacuum can remove nothing that an old snapshot may see,
        and autovacuum comes once a minute. With both every two minutes it hardly ever came to its
        work, and in half an hour the indexes went from 1 to 4 MiB.
        """
        longest = seconds / 12
        usual = cls()
        snapshot = min(usual.snapshot, 2 * longest)
        return cls(
            kill=min(usual.kill, longest),
            network=min(usual.network, longest),
            restart=min(usual.restart, 3 * longest),
            hold=min(usual.hold, longest),
            snapshot=snapshot,
            snapshot_lasts=min(usual.snapshot_lasts, snapshot / 2),
        )


class Faults:
    """The loops of one site; `made` counts what happened."""

    def __init__(self, site: Site, pace: Pace, seed: int) -> None:
        self.made: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._site = site
        self._pace = pace
        self._dice = random.Random(seed)
        self._stopping = threading.Event()
        self._numbers = itertools.count(FIRST_JOINED)
        self._threads = [
            threading.Thread(target=self._repeat, args=(period, step), name=f"soak-{step.__name__}")
            for period, step in self._steps()
        ]

    def _steps(self) -> list[tuple[float, Callable[[], None]]]:
        pace = self._pace
        steps = [
            (pace.kill, self.replace_worker),
            (pace.hold, self.hold_transaction),
            (2.0, self._collect),
        ]
        if isinstance(self._site, PostgresSite):
            steps += [
                (pace.network, self.break_network),
                (pace.restart, self.restart_server),
                (pace.snapshot, self.hold_snapshot),
            ]
        return steps

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no more faults, and wait for the end of those under way."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _repeat(self, period: float, step: Callable[[], None]) -> None:
        try:
            while not self._stopping.wait(period * self._dice.uniform(0.7, 1.3)):
                step()
        except BaseException as error:  # the run ends by it, and shows it
            self.error = error

    def _collect(self) -> None:
        with contextlib.suppress(AwayError):
            self._site.collect_effects()

    # ── workers ──

    def replace_worker(self) -> None:
        """Kill a worker with SIGKILL (mostly) or SIGTERM, and start another."""
        site = self._site
        victim = self._dice.choice(site.victims)
        gently = self._dice.random() < 0.3 and site.is_ready(victim)
        if gently:
            victim.send_signal(signal.SIGTERM)
            code = victim.wait(PATIENCE)
            assert code == 0, f"a worker that was told to stop ended with {code}"
            self.made["workers told to stop"] += 1
        else:
            victim.kill()
            victim.wait()
            site.record("killed", victim=victim.pid)
            self.made["workers killed"] += 1
            if self._dice.random() < 0.3:
                self._unlock(site.worker_name(victim))
        site.replace(victim)

    def _unlock(self, name: str) -> None:
        """What an operator does who does not want to wait for the lease of a dead worker."""
        verbs = self._site.app.sync
        with contextlib.suppress(StoreError):
            dead = [each.id for each in verbs.workers() if each.id.rpartition("-")[0] == name]
            verbs.force_unlock_workers(dead)

    # ── users' transactions ──

    def hold_transaction(self) -> None:
        """Add jobs in a transaction that stays open for a while, then commit or roll back."""
        site, ns = self._site, [next(self._numbers) for _ in range(3)]
        what = {"task": "later", "ns": ns}
        commits = self._dice.random() < 0.6
        try:
            with site.transaction() as connection:
                producer = site.app.sync.using(connection)
                jobs = [producer.add_job("later", {"n": n}) for n in ns]
                self._stopping.wait(self._dice.uniform(0.2, min(2.0, LEASE / 2)))
                if commits:
                    connection.execute("COMMIT")
                else:
                    connection.execute("ROLLBACK")
        except (AwayError, StoreError):
            site.record("unknown" if commits else "rolled back", **what)
            return
        if commits:
            site.record("acknowledged", jobs=[job.id for job in jobs], **what)
        else:
            site.record("rolled back", **what)
        self.made["users' transactions held"] += 1

    def hold_snapshot(self) -> None:
        """A transaction that sees the database as it was keeps VACUUM from its work."""
        with contextlib.suppress(AwayError):
            with self._site.transaction() as connection:
                connection.execute("COMMIT")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT count(*) FROM windlass.jobs")
                self._site.snapshot_until = math.inf
                try:
                    self._stopping.wait(self._pace.snapshot_lasts)
                    connection.execute("COMMIT")
                finally:
                    self._site.snapshot_until = time.monotonic()
                self.made["old snapshots held"] += 1

    # ── the network and the server ──

    def break_network(self) -> None:
        assert isinstance(self._site, PostgresSite)
        proxy = self._site.proxy
        lasts = min(self._dice.uniform(0.5, 2 * LEASE), self._pace.network)
        match self._dice.choice(("cut", "black hole", "silence", "lost answer", "slow")):
            case "cut":
                proxy.cut()
                self.made["networks cut"] += 1
            case "black hole":
                proxy.black_hole()
                self._stopping.wait(lasts)
                proxy.restore()
                self.made["black holes"] += 1
            case "silence":
                proxy.silence()
                self._stopping.wait(lasts)
                proxy.cut()
                self.made["networks silent"] += 1
            case "lost answer":
                if proxy.drop_next_commit_answer().wait(lasts):
                    self.made["answers lost"] += 1
            case _:
                proxy.throttle(50_000)
                self._stopping.wait(lasts)
                proxy.restore()
                self.made["networks slow"] += 1

    def restart_server(self) -> None:
        assert isinstance(self._site, PostgresSite)
        self._site.cluster.stop("immediate")
        self._stopping.wait(self._dice.uniform(0.5, 3.0))
        self._site.cluster.start()
        self.made["server restarts"] += 1
