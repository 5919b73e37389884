"""The first page of the console: the state of the cluster, and its latest events."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import ShowClock
from kafkalite.control.commands.explain import Explain, named_texts
from kafkalite.control.commands.faults import ListFaults
from kafkalite.control.commands.groups import ListGroups
from kafkalite.control.commands.health import ShowHealth
from kafkalite.control.commands.nodes import ListNodes
from kafkalite.control.commands.topics import ListTopics
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.console.page import Content, Page, Section, each_of
from kafkalite.control.console.pages.transactions import OPEN_STATES
from kafkalite.control.console.source import Subject
from kafkalite.coordinator.event_history import REFUSAL_KINDS

if TYPE_CHECKING:
    from kafkalite.control.commands.clock import ClockState
    from kafkalite.control.console.page import View

_MAX_ENTRIES: Final = 200
_MAX_SHOWN: Final = 25
_MAX_REFUSALS: Final = 8


async def _overview(view: View) -> Content:
    ask = view.source.ask
    topics, partitions, states, transactions = 0, 0, Counter[str](), Counter[str]()
    async for topic in each_of((await ask(ListTopics())).topics):
        topics += not topic.internal
        partitions += 0 if topic.internal else topic.partitions
    async for group in each_of((await ask(ListGroups())).groups):
        states[group.state] += 1
    async for transaction in each_of((await ask(ListTransactions())).transactions):
        transactions[transaction.state] += 1
    history = Explain(limit=_MAX_ENTRIES)
    explanation = await ask(history)
    entries = explanation.entries
    texts = named_texts(entries)
    newest = [*zip(entries, texts, strict=True)][::-1]
    refused = [each for each in newest if each[0].kind in REFUSAL_KINDS]
    return Content(
        {
            "health": await ask(ShowHealth()),
            "clock": await _clock(view),
            "nodes": (await ask(ListNodes())).nodes,
            "faults": (await ask(ListFaults())).faults,
            "topics": topics,
            "partitions": partitions,
            "groups": states.total(),
            "group_states": states.most_common(),
            "transactions": transactions.total(),
            "open_transactions": sum(transactions[each] for each in OPEN_STATES),
            "refused": refused[:_MAX_REFUSALS],
            "entries": newest[:_MAX_SHOWN],
            "logs_requests": view.source.logs_requests,
        },
        commands=(ShowHealth(), Explain()),
        changes=(Subject.HISTORY, Subject.FAULTS),
    )


async def _clock(view: View) -> ClockState | None:
    """Return the clock; None if the program that embeds the broker controls it."""
    try:
        return await view.source.ask(ShowClock())
    except CommandError:
        return None


SECTION: Final = Section((Page("/", "Overview", "overview.html.j2", _overview),))
