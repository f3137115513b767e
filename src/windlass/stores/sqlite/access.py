"""What a server keeps: tokens, which are known by their digests alone, and secrets."""

from __future__ import annotations

import msgspec

from windlass.store.server import Token
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

_tokens = msgspec.json.Decoder(list[Token]).decode


def add_token(db: Session, token: Token) -> bool:
    kept = msgspec.structs.asdict(token)
    kept["roles"] = json_text(token.roles)
    kept["tasks"] = None if token.tasks is None else json_text(token.tasks)
    return db.run("insert_token", kept) > 0


def find_token(db: Session, digest: str) -> Token | None:
    return next(iter(_tokens(db.value("find_token", {"digest": digest}))), None)


def tokens(db: Session) -> list[Token]:
    return _tokens(db.value("list_tokens"))


def revoke_token(db: Session, name: str, now: int) -> Token | None:
    db.run("revoke_token", {"name": name, "now": now})
    return next(iter(_tokens(db.value("read_token", {"name": name}))), None)


def secret(db: Session, tenant: str, name: str) -> str | None:
    found: str | None = db.value("read_secret", {"tenant": tenant, "name": name})
    return found


def first_secret(db: Session, tenant: str, name: str, fresh: str) -> str:
    """The secret that there is, or else the fresh one, which is kept."""
    db.run("insert_secret", {"tenant": tenant, "name": name, "secret": fresh})
    kept = secret(db, tenant, name)
    assert kept is not None
    return kept


def replace_secret(db: Session, tenant: str, name: str, fresh: str) -> None:
    db.run("replace_secret", {"tenant": tenant, "name": name, "secret": fresh})
