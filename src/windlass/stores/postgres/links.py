"""Jobs that belong to chains or wait for some, as SQL takes them; and chains as it answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.chain import Chain
from windlass.store.fresh import alike
from windlass.store.records import ChainRow, NewChain, NewJob, Row
from windlass.stores.postgres.wire import META, raw, said, wire_struct

_Link = wire_struct(
    "_Link",
    ("places", list[int]),
    ("chain_key", str | None, None),
    ("key_window", int, 0),
    payload=("payloads", msgspec.Raw),
    meta=META,
)
"""Jobs that differ in nothing but their payloads, with their places, as `_add_links` reads them."""


class Links:
    """Jobs for `_add_links`; what many have in common is said once."""

    def __init__(self) -> None:
        self._groups: dict[Any, list[tuple[NewJob, int]]] = {}

    def add(self, job: NewJob, place: int, key: str | None = None, key_window: int = 0) -> None:
        """`key` is that of the chain which it begins."""
        self._groups.setdefault((alike(job), key, key_window), []).append((job, place))

    @property
    def text(self) -> str | None:
        """A JSON array, or None where there are no jobs."""
        if not self._groups:
            return None
        return msgspec.json.encode(
            [
                _Link(
                    **said(group[0][0]),
                    payloads=raw(f"[{','.join([job.payload for job, _ in group])}]"),
                    places=[place for _, place in group],
                    chain_key=key,
                    key_window=window,
                )
                for (_, key, window), group in self._groups.items()
            ]
        ).decode()


class _Linked(msgspec.Struct):
    """What `_add_linked` reads; `_enqueue` knows it by its first field."""

    links: msgspec.Raw | None


def encode_linked(jobs: Sequence[NewJob]) -> str:
    """Jobs without keys, some of which wait for chains."""
    links = Links()
    for place, job in enumerate(jobs, 1):
        links.add(job, place)
    return msgspec.json.encode(_Linked(raw(links.text))).decode()


class _Starts(msgspec.Struct, omit_defaults=True):
    """What `_start_chains` reads."""

    starts: msgspec.Raw | None = None
    keyed: msgspec.Raw | None = None


def encode_starts(chains: Sequence[NewChain]) -> str:
    starts, keyed = Links(), Links()
    for place, new in enumerate(chains, 1):
        links = starts if new.key is None else keyed
        links.add(new.job, place, new.key, new.key_window)
    return msgspec.json.encode(_Starts(raw(starts.text), raw(keyed.text))).decode()


def needs_telling(chains: Sequence[NewChain]) -> bool:
    """Whether it takes the database to know what they are like once they have started."""
    return any(new.key is not None or new.job.blockers for new in chains)


_pairs = msgspec.json.Decoder(list[tuple[ChainRow, Row | None]]).decode
_rows = msgspec.json.Decoder(list[ChainRow]).decode


def decode_chains(text: str | None, *, is_new: Sequence[bool] | None = None) -> list[Chain[Any]]:
    """What `_show_chains` says. `is_new` says which were not there before a start."""
    pairs = [] if text is None else _pairs(text)
    new = [True] * len(pairs) if is_new is None else is_new
    return [
        row.chain(None if job is None else job.job(), deduplicated=not fresh)
        for (row, job), fresh in zip(pairs, new, strict=True)
    ]


def decode_chain_rows(text: str | None) -> list[Chain[Any]]:
    """Chains without their jobs."""
    return [] if text is None else [row.chain() for row in _rows(text)]
