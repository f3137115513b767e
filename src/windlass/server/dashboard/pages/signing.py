"""Signing in and out, and the theme."""

from __future__ import annotations

from windlass.server.dashboard.admission import identify
from windlass.server.dashboard.answers import Answer, Page, See, is_local
from windlass.server.dashboard.cookies import THEMES, fits
from windlass.server.dashboard.routes import Open, Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.refusals import Refusal, Unauthenticated

routes = Routes()


@routes.get("/sign-in", Open.TO_ALL)
async def show(visit: Visit) -> Page:
    has_ended = visit.query.one("why") == "ended"
    words = "You are no longer signed in: the token has ended or was revoked." if has_ended else ""
    return _page(visit, words, 200)


@routes.post("/sign-in", Open.TO_ALL)
async def sign_in(visit: Visit) -> Answer:
    token = (visit.form.one("token") or "").strip()
    if not token:
        return _page(visit, "Paste a token first.", 400)
    if not fits(token):
        return _page(
            visit, "This is no token: it has characters that none has, or is too long.", 400
        )
    try:
        await identify(visit.service, visit.request.scope, token)
    except Unauthenticated as error:
        return _page(visit, _sentence(str(error)), 401)
    except Refusal as error:
        return _page(visit, _sentence(str(error)), error.status)
    wanted = visit.form.one("next") or "/"
    return See(wanted if is_local(wanted) else "/", (visit.cookies.signed_in(token),))


@routes.post("/sign-out", Open.TO_ALL)
async def sign_out(visit: Visit) -> See:
    return See("/sign-in", (visit.cookies.signed_out(),))


@routes.post("/theme", Open.TO_ALL)
async def choose_theme(visit: Visit) -> See:
    """The next of the themes, or the one that is named; then the same page again."""
    wanted = visit.form.one("theme") or ""
    back = visit.form.one("back") or "/"
    theme = wanted if wanted in THEMES else "auto"
    return See(back if is_local(back) else "/", (visit.cookies.with_theme(theme),))


def _page(visit: Visit, words: str, status: int) -> Page:
    wanted = visit.query.one("next") or visit.form.one("next") or "/"
    values = {"words": words, "next": wanted if is_local(wanted) else "/"}
    return Page("sign_in.html", values, status)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
