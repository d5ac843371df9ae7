"""What the page shows, as JSON: the proxy's figures, and its conversations. Holds no payload and no key."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from autoprune.apps.proxy._pruning import Cleared
from autoprune.apps.proxy._sessions import Session, Sessions
from autoprune.apps.proxy._settings import Settings
from autoprune.conversation.edits import sentence
from autoprune.economics import lifetime

Json: TypeAlias = dict[str, Any]
DIGEST_BYTES = 8
PAID = "the rewrite was paid for anyway"
NUMBERED = re.compile(r"^request (\d+)(?=:)")  # how a strategy begins a decision; it counts requests from 0


def revision(sessions: Sessions, wanted: str | None = None) -> str:
    """Return a short text that is another one whenever the state is."""
    known = [(each.name, each.requests, each.refused, each.failed) for each in sessions]
    whole = wanted, sessions.requests, sessions.passed, sessions.refused, sessions.failed
    return blake2b(repr((whole, known)).encode(), digest_size=DIGEST_BYTES).hexdigest()


def state(settings: Settings, sessions: Sessions, wanted: str | None = None) -> Json:
    """Return what went through a proxy, the conversation first that began last.

    Each conversation comes with its requests, what was cleared and what was decided; where one is `wanted` by its name,
    that one alone does, and the others with their sums.
    """
    known: Sequence[Session] = sorted(
        (each for each in sessions if each.requests), key=attrgetter("started"), reverse=True
    )
    return {
        "upstream": urlsplit(settings.upstream).hostname if settings.upstream else None,
        "strategy": settings.strategy,
        **{name: getattr(sessions, name) for name in ("requests", "passed", "why", "refused", "failed")},
        "saved": sum(each.saved for each in sessions.figures().values()),
        "sessions": [told(each, in_full=wanted in (None, each.name)) for each in known],
    }


def told(session: Session, *, in_full: bool) -> Json:
    """Return a conversation: who has it, and its sums; in full also its requests, what was cleared, and why."""
    client, model = session.label
    known = {
        name: getattr(session, name) for name in ("name", "path", "started", "at", "requests", "refused", "failed")
    }
    figures, last = session.figures, session.points[-1]
    sums: Json = {
        **known,
        "client": client,
        "agent": session.client,
        "model": model,
        "safe_zone": session.safe_zone,
        "tokens": {"before": figures.before, "after": figures.after},
        "prompt": {"before": last.before, "after": last.after},
        "results_cleared": figures.cleared,
        "saved": saved(session),
        "cache": {"life": lifetime(session.ledger.prices.life), "from": session.life_from},
    }
    return {**sums, **_details(session)} if in_full else sums


def saved(session: Session) -> Json:
    """Return what pruning has saved, below zero what it has lost: input tokens, dollars, a share of the bill.

    `pays_from` is the number of the request from which on it pays; None where it never will. `cold` are the tokens that
    prunes at cold requests have saved.
    """
    total, unpruned = session.total, session.ledger.unpruned
    return {
        "tokens": total.net,
        "cold": session.cold.net,
        "money": total.money,
        "share": total.net / unpruned if unpruned else 0.0,
        "pays_from": None if math.isinf(total.pays_from) else total.pays_from,
        "prices": {"write": total.prices.write, "read": total.prices.read, "note": total.prices.note},
    }


def _details(session: Session) -> Json:
    return {
        "points": [vars(each) for each in session.points],
        "cleared": [{**vars(each), "reason": why(each)} for each in session.cleared],
        "decisions": [*map(counted_from_one, session.decisions)],
        "notes": _notes(session.notes),
    }


def why(cleared: Cleared) -> str:
    """Return why a result was cleared, and that it cost nothing to write the prompt anew where that had to be."""
    reason = sentence(cleared.reason)
    if not cleared.is_cold or PAID in reason:
        return reason
    rest = reason.removeprefix("cold")
    return f"cold: {PAID}{rest}" if rest.startswith(",") else f"{reason}; cold: {PAID}"


def _notes(notes: Mapping[str, int]) -> Iterable[Json]:
    return [{"note": note, "requests": requests} for note, requests in notes.items()]


def counted_from_one(decision: str) -> str:
    """Return a decision with its request counted from 1, as the page counts them."""
    return NUMBERED.sub(lambda match: f"request {int(match[1]) + 1}", decision)
