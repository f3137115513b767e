"""One run on one store, from the first process to the last check."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.faults import ledger, processes
from tests.faults.kit import until
from tests.faults.schedule_kit import instants, shown
from tests.soak import invariants, verdict
from tests.soak.faults import Faults, Pace
from tests.soak.invariants import Books, Fired
from tests.soak.samples import Sampler, sampler
from tests.soak.sites import AwayError, Site, site
from tests.soak.verdict import Finding
from windlass import Job

SCHEDULES = {"minute": 1, "even": 2}
"""Those that no operator pauses, and every how many minutes they are due."""
JUDGED_EVERYWHERE = ("worker: memory, MiB", "worker: descriptors", "load: memory, MiB")


class InterruptedRun(Exception):
    """The user of the rig does not want to wait for its end."""


@dataclass(frozen=True)
class SoakPlan:
    """What to run. `plant` is a defect on purpose: "descriptors", "memory" or "loss"."""

    seconds: float
    rate: float = 1.0
    sample_every: float = 5.0
    plant: str = ""
    seed: int = 1


@dataclass
class Report:
    """What a run showed; `broken` are invariants, `findings` the figures."""

    store: str
    seconds: float
    ended: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)

    @property
    def grown(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.is_flat]

    @property
    def is_good(self) -> bool:
        return not self.broken and not self.grown


def is_meant_to_fail(job: Job) -> bool:
    """By its handler, by an operator, or because a later request under its key took its place while
    it ran, so that it did not run again after its worker was killed."""
    return job.task in ("hopeless", "idle") or (job.task == "keyed" and job.key is None)


def run(
    store: str,
    plan: SoakPlan,
    interrupted: threading.Event,
    say: Callable[[str], None] = lambda line: None,
) -> Report | None:
    """Run the plan on that store; None if it was interrupted before its end."""
    with site(store) as here:
        course = Course(here, plan, interrupted, say)
        try:
            report = course.run()
            here.keeps_folder = not report.is_good
            return report
        except InterruptedRun:
            return None
        except BaseException:
            here.keeps_folder = True
            raise
        finally:
            course.end()
            if here.keeps_folder:
                say(f"ledger and logs stay in {here.folder}")


class Course:
    def __init__(
        self, here: Site, plan: SoakPlan, interrupted: threading.Event, say: Callable[[str], None]
    ) -> None:
        self._site = here
        self._plan = plan
        self._interrupted = interrupted
        self._say = say
        self._faults = Faults(here, Pace.of(plan.seconds), plan.seed)
        self._sampler: Sampler = sampler(here, plan.sample_every)

    def run(self) -> Report:
        plan, here = self._plan, self._site
        here.start(rate=plan.rate, sample_every=plan.sample_every, plant=plan.plant)
        self._sampler.start()
        self._faults.start()
        self._wait()
        if self._interrupted.is_set():
            raise InterruptedRun
        self._say("the load ends")
        report = Report(here.name, plan.seconds)
        self._stop_load()
        if plan.plant == "loss":
            self._lose_one()
        fired = self._drain()
        report.broken += self._checked(self._stop_workers)
        here.collect_effects()
        books = Books(ledger.read(here.ledger))
        report.broken += invariants.check(books, fired)
        report.broken += self._checked(
            self._check_counters, here.check_processes, here.check_at_rest
        )
        report.ended = books.ended
        report.faults = dict(self._faults.made)
        report.samples = [dict(sample) for sample in self._sampler.samples]
        report.findings = verdict.judge(report.samples, plan.seconds)
        report.findings += verdict.delays(self._sampler.delays, plan.seconds)
        untold = verdict.missing(report.samples, plan.seconds, JUDGED_EVERYWHERE)
        report.broken += [f"not measured: {name}" for name in untold]
        return report

    def end(self) -> None:
        """Stop the threads; the site ends the processes."""
        self._faults.stop()
        self._sampler.stop()

    # ── the load ──

    def _wait(self) -> None:
        """Until the time is over, with a line a minute; ends at once if something breaks."""
        began = time.monotonic()
        minute = 1
        while not self._interrupted.wait(min(0.2, self._plan.seconds / 100)):
            passed = time.monotonic() - began
            for thread in (self._faults, self._sampler):
                if thread.error is not None:
                    raise thread.error
            for process in (self._site.steady, self._site.producer):
                assert process.poll() is None, f"process {process.pid} ended by itself"
            if passed >= minute * 60:
                self._say(self._progress(minute))
                minute += 1
            if passed >= self._plan.seconds:
                return

    def _progress(self, minute: int) -> str:
        samples = self._sampler.samples
        last = samples[-1] if samples else {}
        rows = last.get("rows of _jobs", last.get("rows of jobs", 0))
        made = ", ".join(f"{count} {name}" for name, count in sorted(self._faults.made.items()))
        memory, descriptors = (
            last.get(f"worker: {it}", 0) for it in ("memory, MiB", "descriptors")
        )
        return (
            f"{minute} of {self._plan.seconds / 60:g} min: {rows:.0f} jobs in the table, worker"
            f" {memory:.0f} MiB, {descriptors:.0f} descriptors; {made}"
        )

    def _stop_load(self) -> None:
        """Faults end first, so that what is asked for afterwards is answered."""
        self._sampler.stop()
        self._faults.stop()
        if self._faults.error is not None:
            raise self._faults.error
        [code] = processes.stop([self._site.producer])
        assert code == 0, f"the load ended with {code}: see its log"

    def _lose_one(self) -> None:
        """The planted loss: a job that was acknowledged vanishes."""
        here = self._site
        n = 10**12
        job = here.app.sync.add_job("later", {"n": n}, delay=3600.0)
        here.record("acknowledged", task="later", ns=[n], jobs=[job.id])
        table = "windlass_jobs" if here.name == "sqlite" else "windlass._jobs"
        here.ask(f"DELETE FROM {table} WHERE id = {job.id} RETURNING id")

    # ── the end ──

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            if self._interrupted.is_set():
                raise InterruptedRun
            return condition()

        until(is_so, what)

    def _drain(self) -> list[Fired]:
        """Bring back what operators held, let everything run, and pause what would never end."""
        verbs = self._site.app.sync
        for task in verbs.paused().tasks:
            verbs.resume(task=task)
        for queue in verbs.paused().queues:
            verbs.resume(queue=queue)
        fired = self._pause_schedules()

        def is_empty() -> bool:
            verbs.retry_jobs([job.id for job in verbs.list_jobs(state="cancelled")])
            verbs.complete_jobs([job.id for job in verbs.list_jobs(task="idle", limit=1000)])
            counts = verbs.counts()
            time.sleep(0.2)
            return not any(
                counts[state] for state in ("scheduled", "ready", "running", "cancelled")
            )

        try:
            self._until(is_empty, "all jobs to be done")
        except AssertionError as error:
            left = [job for job in verbs.list_jobs(limit=1000) if not job.state.is_final]
            raise AssertionError(f"{error}; {len(left)} are left: {left[:5]}") from error
        return fired

    def _pause_schedules(self) -> list[Fired]:
        """Pause them when the latest instant has been fired; what each must have fired by then."""
        verbs = self._site.app.sync

        def are_fired() -> bool:
            now = datetime.now(UTC)
            known = {each.id: each for each in verbs.list_schedules()}
            due = {
                name: instants(known[name].known_since, now, every)
                for name, every in SCHEDULES.items()
            }
            last = {name: known[name].last_at for name in SCHEDULES}
            # No instant may come between this look and the pause.
            return now.second < 55 and all(
                not due[name] or (at is not None and shown(at) == due[name][-1])
                for name, at in last.items()
            )

        self._until(are_fired, "schedules to be fired")
        found = []
        for known in verbs.list_schedules():
            paused = verbs.pause_schedule(known.id)
            if known.id in SCHEDULES:
                assert paused.paused_at is not None
                every = SCHEDULES[known.id]
                found.append(Fired(known.id, every, paused.known_since, paused.paused_at))
        return found

    def _stop_workers(self) -> None:
        """P9: every worker that is told to stop ends well."""
        codes = processes.stop([self._site.steady, *self._site.victims])
        assert not any(codes), f"workers ended with {codes}"

    def _check_counters(self) -> None:
        """I11: the database counts what is there, and only what had to fail has failed."""
        verbs = self._site.app.sync
        failed = verbs.list_jobs(state="failed", limit=10_000)
        counts = verbs.counts()
        assert counts["failed"] == len(failed), f"{counts}, but {len(failed)} have failed"
        strange = [job for job in failed if not is_meant_to_fail(job)]
        assert not strange, f"failed: {strange[:5]}"

    def _checked(self, *checks: Callable[[], None]) -> list[str]:
        broken = []
        for check in checks:
            try:
                check()
            except (AssertionError, AwayError) as error:
                broken.append(f"{check.__name__}: {str(error)[-2000:]}")
        return broken
