"""Settling and renewing claims, many in one call: an answer for each, in their order.

*applied*: it is written. *lost*: the job is there, but this claim no longer owns it. *missing*:
there is no such job any more, or the lease is none of the caller's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from windlass.errors import PayloadError
from windlass.model import payload as payloads
from windlass.model.outcome import clip
from windlass.server.identity import Power
from windlass.server.rest.call import Call
from windlass.server.rest.claims import LeaseSeconds
from windlass.server.rest.preparing import MOST, blamed, place_of, require_few
from windlass.server.rest.routes import BULK, Answer, Nothing, Routes
from windlass.server.rest.specs import Seconds
from windlass.server.rest.tickets import LeaseText, leases_of
from windlass.store.records import RELEASE, Fail, Lease, LostReason, Outcome, Verdict

routes = Routes("claims")

Result = Literal["applied", "lost", "missing", "refused"]
Results = Annotated[
    list[Result],
    Meta(
        description="What became of each, in their order. `lost`: another worker has the job, or it"
        " has ended. `missing`: there is no such job. `refused`: the database takes no such"
        " outcome.",
        examples=[["applied", "lost"]],
    ),
]
_Lease = Annotated[LeaseText, Meta(description="The claim's lease, as it was given.")]
_Error = Annotated[str, Meta(description="What went wrong; kept as the job's last error.")]


class _Outcome(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="outcome", tag=str.lower
):
    lease: _Lease


class Completed(_Outcome):
    """The job is done."""

    output: Annotated[
        Any, Meta(description="What it made, any JSON; kept with the job.", examples=[{"sent": 1}])
    ] = None


class Failed(_Outcome):
    """The attempt is used: tried again by the task's policy, or failed where none is left."""

    error: _Error = ""


class Nack(_Outcome):
    """The attempt is used: tried again after exactly `delay` seconds."""

    delay: Annotated[Seconds, Meta(description="Seconds; 0 is now.")] = 0.0
    reason: _Error = ""


class Abandon(_Outcome):
    """The job goes back at once, and the attempt is not used."""


class Poison(_Outcome):
    """The job has failed for good, whatever attempts are left."""

    error: _Error = ""


class Outcomes(msgspec.Struct, forbid_unknown_fields=True):
    """How claimed jobs ended."""

    outcomes: Annotated[
        list[Completed | Failed | Nack | Abandon | Poison],
        Meta(
            description=f"One for each claim; {MOST:,} at most.",
            extra_json_schema={"maxItems": MOST},
        ),
    ]


class Settled(msgspec.Struct):
    """What became of outcomes."""

    results: Results


class Renewal(msgspec.Struct, forbid_unknown_fields=True):
    """Claims that need more time."""

    leases: Annotated[
        list[LeaseText],
        Meta(
            description=f"The claims' leases, as they were given; {MOST:,} at most.",
            extra_json_schema={"maxItems": MOST},
        ),
    ]
    lease: LeaseSeconds = None


class Renewed(msgspec.Struct):
    """What became of renewals."""

    results: Results
    cancel: Annotated[
        list[LeaseText],
        Meta(description="Those of the leases whose jobs should stop: they were cancelled."),
    ]


@routes.post(
    "/v1/claims/settle",
    Power.CLAIM,
    body=Outcomes,
    limit=BULK,
    answers={200: Answer(Settled, "What became of each outcome.")},
)
async def settle_claims(call: Call[Nothing, Outcomes]) -> Settled:
    """Settle claims: completed, failed, nack, abandon or poison, mixed as they come.

    Settling twice is safe: the second time is `lost` or `missing`.
    """
    given = call.body.outcomes
    require_few(given, "outcomes")
    leases = leases_of(call, [each.lease for each in given])
    settlements: list[tuple[int, Lease, Outcome]] = []
    for number, (each, lease) in enumerate(zip(given, leases, strict=True)):
        try:
            outcome = _outcome(call, each, lease)
        except PayloadError as error:
            raise blamed(error, place_of(number, "outcomes")) from None
        if lease is not None and outcome is not None:
            settlements.append((number, lease, outcome))
    results: list[Result] = ["missing"] * len(given)
    answers = await call.service.settlements.settle_all(
        [(lease, outcome) for _, lease, outcome in settlements]
    )
    for (number, *_), answer in zip(settlements, answers, strict=True):
        results[number] = _RESULTS[answer.verdict]
    return Settled(results)


_RESULTS: dict[Verdict, Result] = {
    Verdict.APPLIED: "applied",
    Verdict.LOST: "lost",
    Verdict.MISSING: "missing",
    Verdict.BUSY: "lost",
    Verdict.REFUSED: "refused",
}
"""`Settlements` asks again while a job is busy, so that this is never an answer of theirs."""


def _outcome(
    call: Call[Nothing, Outcomes],
    given: Completed | Failed | Nack | Abandon | Poison,
    lease: Lease | None,
) -> Outcome | None:
    """What the store is to write. An output is looked at whether or not the lease is good."""
    rulings = call.rulings
    match given:
        case Completed(output=None):
            return None if lease is None else rulings.completed(lease, b"")
        case Completed(output=output):
            most = call.service.app.settings.max_payload
            text = payloads.encode_value(output, limit=most, field="output")
            return None if lease is None else rulings.completed(lease, text.encode())
        case _ if lease is None:
            return None
        case Failed(error=error):
            return rulings.failed(lease, error)
        case Nack(delay=delay, reason=reason):
            return rulings.nacked(lease, delay, reason)
        case Poison(error=error):
            return Fail(clip(error or "failed"), final=True)
        case Abandon():
            return RELEASE


@routes.post(
    "/v1/claims/renew",
    Power.CLAIM,
    body=Renewal,
    limit=BULK,
    answers={200: Answer(Renewed, "What became of each lease.")},
)
async def renew_claims(call: Call[Nothing, Renewal]) -> Renewed:
    """Renew leases: each ends that many seconds from now, never sooner than it did.

    The answer also names claims whose jobs were cancelled: stop them, and settle them as
    abandoned.
    """
    texts = call.body.leases
    require_few(texts, "leases")
    seconds = call.body.lease or call.service.app.settings.lease
    found = leases_of(call, texts)
    held = [lease for lease in found if lease is not None]
    told = await call.renewals.renew(held, seconds)
    results: list[Result] = []
    cancel: list[str] = []
    for text, lease in zip(texts, found, strict=True):
        answer = None if lease is None else told.get((lease.job_id, lease.token))
        results.append(_renewed(answer.lost if answer else LostReason.NOT_FOUND))
        if answer is not None and answer.should_stop:
            cancel.append(text)
    return Renewed(results, cancel)


def _renewed(lost: LostReason | None) -> Result:
    match lost:
        case None:
            return "applied"
        case LostReason.NOT_FOUND:
            return "missing"
        case _:
            return "lost"
