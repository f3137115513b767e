"""Chains: those that a search selects, and one as a picture with what can be done with it."""

from __future__ import annotations

from windlass.client.chain_trees import gather
from windlass.errors import ChainNotFoundError
from windlass.model.chain import ChainState
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.forms import BadForm
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.picture import draw
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()

PAGE = 50


@routes.get("/chains", Power.READ)
async def chains(visit: Visit) -> Page:
    state, task, tenant = (visit.query.one(name) for name in ("state", "task", "tenant"))
    after = visit.query.number("after")
    if state is not None and state not in set(ChainState):
        raise BadForm(f"there is no state {state[:40]!r}; they are: {', '.join(ChainState)}")
    found = await visit.seen(tenant).list_chains(
        state=state, task=task, after=after, limit=PAGE + 1
    )
    shown = found[:PAGE]
    words = {"state": state, "task": task, "tenant": tenant}
    values = {
        "notice_text": notice(visit.query),
        "chains": shown,
        "states": list(ChainState),
        "words": words,
        "newest": address("/chains", **words) if after is not None else None,
        "older": address("/chains", **words, after=shown[-1].id) if len(found) > PAGE else None,
        "has_tenants": visit.sees_tenants and any(chain.tenant for chain in shown),
    }
    return Page("chains.html", values)


@routes.get("/chains/{id}", Power.READ)
async def chain(visit: Visit) -> Page:
    tree = await gather(visit.seen(), visit.id)
    if tree is None:
        raise ChainNotFoundError([visit.id])
    found = tree.chain
    values = {
        "notice_text": notice(visit.query),
        "chain": found,
        "picture": draw(tree),
        "waiting": tree.waiting,
        "can_retry": found.state in (ChainState.FAILED, ChainState.CANCELLED),
        "can_cancel": not found.state.is_final,
    }
    return Page("chain.html", values)


@routes.get("/chains/{id}/delete", Power.OPERATE)
async def confirm_delete(visit: Visit) -> Page:
    found = await visit.seen().get_chain(visit.id)
    if found is None:
        raise ChainNotFoundError([visit.id])
    return Page("delete_chain.html", {"chain": found})


@routes.post("/chains/{id}/retry", Power.OPERATE)
async def retry(visit: Visit) -> Answer:
    opened = await visit.seen().retry_chains([visit.id])
    return See(address(f"/chains/{visit.id}", done="chain-retry", n=len(opened)))


@routes.post("/chains/{id}/cancel", Power.OPERATE)
async def cancel(visit: Visit) -> Answer:
    cancelled = await visit.seen().cancel_chains([visit.id])
    return See(address(f"/chains/{visit.id}", done="chain-cancel", n=len(cancelled)))


@routes.post("/chains/{id}/delete", Power.OPERATE)
async def delete(visit: Visit) -> Answer:
    cascade = visit.form.one("cascade") == "yes"
    deleted = await visit.seen().delete_chains([visit.id], cascade)
    return See(address("/chains", done="chain-delete", n=len(deleted)))
