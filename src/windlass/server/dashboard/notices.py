"""What a page says after something was done. It comes in the address, as the name of one of these
sentences and a number, so no address can make a page say anything else."""

from __future__ import annotations

from windlass.server.dashboard.forms import BadForm, Form

_SENTENCES = {
    "retry": ("The job runs again.", "{} jobs run again."),
    "cancel": (
        "The job is cancelled, or is told to stop if it runs.",
        "{} jobs are cancelled, or are told to stop if they run.",
    ),
    "delete": ("The job is deleted.", "{} jobs are deleted."),
    "complete": ("The job is completed.", "{} jobs are completed."),
    "pause": ("It is paused: no job of it starts until it is resumed.", ""),
    "resume": ("It is resumed.", ""),
    "trigger": ("One job was added; the schedule itself stays as it is.", ""),
    "pause-schedule": ("The schedule is paused.", ""),
    "resume-schedule": ("The schedule is resumed, and goes on from now.", ""),
    "chain-retry": ("The chain is open again.", ""),
    "chain-cancel": ("The chain is cancelled, as soon as its job has stopped.", ""),
    "chain-delete": ("The chain is deleted with its jobs.", "{} chains are deleted."),
    "unlock": ("What the worker held goes back to the queue.", ""),
}
_NONE = "Nothing was changed: what was chosen is in another state by now."


def notice(query: Form) -> str:
    """The sentence that an address asks for, or ''."""
    one, many = _SENTENCES.get(query.one("done") or "", ("", ""))
    try:
        count = query.number("n")
    except BadForm:
        return ""
    if not one:
        return ""
    if count == 0:
        return _NONE
    return many.format(f"{count:,}") if many and count is not None and count != 1 else one
