"""The pages about groups: the list, and what happened to one group, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.control.commands.explain import Explain, member_names, named_texts
from kafkalite.control.commands.groups import DeleteGroup, ListGroups, ShowGroup
from kafkalite.control.console.command_forms import sender
from kafkalite.control.console.coordinator_values import log_of_key
from kafkalite.control.console.page import (
    Action,
    Content,
    NotFoundError,
    Page,
    Pager,
    Section,
    each_of,
)
from kafkalite.control.console.source import CommitHistory, Subject
from kafkalite.control.console.texts import name_text
from kafkalite.control.console.timeline import timeline_of
from kafkalite.control.group_reader import UnknownGroupError
from kafkalite.control.group_status import dead_group
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.coordinator.event_history import DEFAULT_EXPLAIN_ENTRIES, REFUSAL_KINDS
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kafkalite.control.console.page import View
    from kafkalite.control.group_status import GroupStatus, ListedGroup

_PATH: Final = "/groups"
_LIMITS: Final = {"max_offsets": 200, "max_members": 100}
"""The maximum numbers of rows of the tables of offsets and members."""


async def _groups(view: View) -> Content:
    searched, state = view.query.text("q"), view.query.text("state")
    pager, states = Pager(view.query), set()
    async for each in each_of((await view.source.ask(ListGroups())).groups):
        states.add(each.state)
        if _is_selected(each, searched, state):
            pager.add(each)
    return Content(
        {
            "rows": pager.rows(),
            "states": sorted(states),
            "searched": searched,
            "state": state,
        },
        commands=(ListGroups(),),
        changes=(Subject.HISTORY, Subject.GROUPS),
    )


def _is_selected(group: ListedGroup, searched: str, state: str) -> bool:
    return searched.lower() in group.group_id.lower() and state in {"", group.state}


async def _group(view: View) -> Content:
    group = view.query.text("group")
    if not group:
        raise ValueError("group must be the id of a group, as in /console/group?group=shop")
    history = Explain(group=group, limit=DEFAULT_EXPLAIN_ENTRIES)
    explanation = await view.source.ask(history)
    entries = explanation.entries
    present = await _present(view, group, has_entries=bool(entries))
    step = view.query.whole("step", len(entries), maximum=2**31)
    selected = entries[step - 1] if 0 < step < len(entries) else None
    status, problem = present, ""
    if selected is not None:
        status, problem = await _past(view, group, selected.at_ms)
    commits = await _commits(view, group)
    names = member_names(entries)
    texts = named_texts(entries)
    timeline = timeline_of(
        entries,
        texts={each.number: text for each, text in zip(entries, texts, strict=True)},
        names=names,
        present=[each.member_id for each in present.members],
        commits=commits.commits,
        assignments=commits.assignments,
        now_ms=explanation.now_ms,
        selected_ms=None if selected is None else selected.at_ms,
    )
    shown = [*enumerate(zip(entries, texts, strict=True), 1)]
    return Content(
        {
            "group": group,
            "status": status,
            "problem": problem,
            "timeline": timeline,
            "commits": commits,
            "now_ms": explanation.now_ms,
            "selected": selected,
            "step": step if selected is not None else len(entries),
            "steps": len(entries),
            "entries": shown[::-1],
            "refusals": sum(each.times for each in entries if each.kind in REFUSAL_KINDS),
            "names": names,
            **_LIMITS,
            "lag": _total_lag(status),
            "logs_requests": view.source.logs_requests,
            **await log_of_key(view.source, OFFSETS_TOPIC, group),
        },
        title=f"Group {name_text(group)}",
        commands=(ShowGroup(group), Explain(group=group), DeleteGroup(group)),
        changes=() if selected is not None else (Subject.HISTORY, Subject.GROUPS),
    )


async def _present(view: View, group: str, *, has_entries: bool) -> GroupStatus:
    try:
        return await view.source.ask(ShowGroup(group))
    except UnknownGroupError as error:
        if has_entries:
            return dead_group(group)
        raise NotFoundError(f"{error}") from error


async def _past(view: View, group: str, at_ms: int) -> tuple[GroupStatus, str]:
    """Return a group as it was, and why that is not known."""
    try:
        return await view.source.past_group(group, at_ms), ""
    except TimeTravelError as error:
        return dead_group(group), f"{error}"


async def _commits(view: View, group: str) -> CommitHistory:
    try:
        return await view.source.commits(group)
    except TimeTravelError:  # another page reports a damaged log
        return CommitHistory((), is_complete=False)


def _total_lag(status: GroupStatus) -> int | None:
    lags = [each.lag for each in status.offsets if each.lag is not None]
    return sum(lags) if lags else None


SECTION: Final = Section(
    (
        Page(_PATH, "Groups", "groups.html.j2", _groups),
        Page("/group", "Group", "group.html.j2", _group, section=_PATH),
    ),
    (Action("/groups/delete", sender(DeleteGroup), is_dangerous=True),),
)
