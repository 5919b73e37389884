"""The pages about transactions: the list, and the states of one transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.control.commands.explain import Explain, named_texts
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.console.coordinator_values import log_of_key
from kafkalite.control.console.page import (
    Content,
    NotFoundError,
    Page,
    Pager,
    Section,
    each_of,
)
from kafkalite.control.console.source import Subject
from kafkalite.control.console.texts import name_text
from kafkalite.control.console.timeline import transaction_timeline
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.coordinator.event_history import DEFAULT_EXPLAIN_ENTRIES, REFUSAL_KINDS
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.commands.explain import HistoryEntry
    from kafkalite.control.console.page import View
    from kafkalite.control.console.source import TransactionMoment

_PATH: Final = "/transactions"
_MAX_ENTRIES: Final = 2_000
_FENCED: Final = "fenced"
OPEN_STATES: Final = frozenset(("Ongoing", "PrepareCommit", "PrepareAbort"))


async def _transactions(view: View) -> Content:
    searched, state = view.query.text("q").lower(), view.query.text("state")
    pager, states = Pager(view.query), set()
    async for each in each_of((await view.source.ask(ListTransactions())).transactions):
        states.add(each.state)
        is_in_state = state in {"", each.state, "open" if each.state in OPEN_STATES else ""}
        if is_in_state and searched in each.transactional_id.lower():
            pager.add(each)
    history = (await view.source.ask(Explain(limit=_MAX_ENTRIES))).entries
    return Content(
        {
            "rows": pager.rows(),
            "states": sorted(states),
            "searched": view.query.text("q"),
            "state": state,
            "fenced": _last_fencing(history),
        },
        commands=(ListTransactions(),),
        changes=(Subject.HISTORY, Subject.TRANSACTIONS),
    )


def _last_fencing(entries: Sequence[HistoryEntry]) -> Mapping[str | None, HistoryEntry]:
    """Return the last entry about a fenced producer by transactional id."""
    return {each.transactional_id: each for each in entries if each.kind == _FENCED}


async def _transaction(view: View) -> Content:
    name = view.query.text("id")
    if not name:
        raise ValueError("id must be a transactional id, as in /console/transaction?id=pay")
    status = None
    async for each in each_of((await view.source.ask(ListTransactions())).transactions):
        if each.transactional_id == name:
            status = each
    history = Explain(transactional_id=name, limit=DEFAULT_EXPLAIN_ENTRIES)
    explanation = await view.source.ask(history)
    entries = explanation.entries
    if status is None and not entries:
        raise NotFoundError(f"there is no transactional id {name[:249]!r}")
    texts = named_texts(entries)
    moments = await _moments(view, name)
    timeline = transaction_timeline(
        moments,
        entries,
        texts={each.number: text for each, text in zip(entries, texts, strict=True)},
        now_ms=explanation.now_ms,
    )
    return Content(
        {
            "name": name,
            "status": status,
            "timeline": timeline,
            "moments": moments[::-1],
            "entries": [*zip(entries, texts, strict=True)][::-1],
            "refusals": sum(each.times for each in entries if each.kind in REFUSAL_KINDS),
            "fenced": _last_fencing(entries).get(name),
            **await log_of_key(view.source, TRANSACTION_STATE_TOPIC, name),
        },
        title=f"Transactional id {name_text(name)}",
        commands=(Explain(transactional_id=name), ListTransactions()),
        changes=(Subject.HISTORY, Subject.TRANSACTIONS),
    )


async def _moments(view: View, name: str) -> Sequence[TransactionMoment]:
    try:
        return await view.source.transaction_moments(name)
    except TimeTravelError:  # the history is shown nevertheless
        return ()


SECTION: Final = Section(
    (
        Page(_PATH, "Transactions", "transactions.html.j2", _transactions),
        Page(
            "/transaction", "Transactional id", "transaction.html.j2", _transaction, section=_PATH
        ),
    )
)
