"""The pages about requests: the latest ones that a filter selects, and one with its answer."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import fields_of, read
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.faults import ListFaults
from kafkalite.control.commands.requests import ListRequests, StopRequestLog
from kafkalite.control.commands.topics import ListTopics, ShowTopic
from kafkalite.control.console.page import (
    Action,
    Content,
    NotFoundError,
    Page,
    Section,
)
from kafkalite.control.console.record_traffic import APIS, spans_of
from kafkalite.control.console.source import NEWEST, RequestsUntil, Subject
from kafkalite.control.console.texts import name_text
from kafkalite.control.request_filter import RequestFilter
from kafkalite.gateway.fault_rules import api_keys_by_name, describe_rule, error_codes_by_name
from kafkalite.ports.times import instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.control.commands.explain import HistoryEntry
    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.control.console.forms import Query
    from kafkalite.control.console.page import View
    from kafkalite.control.console.record_traffic import RecordSpan
    from kafkalite.control.console.source import RequestPage

_PATH: Final = "/requests"
_ROWS: Final = 60
_MAX_OF_RECORD: Final = 50
"""The maximum number of requests of each API that a page about a record shows."""
_MAX_SPANS: Final = 12
_MAX_RESOLVED: Final = 50
_MAX_OFFSET: Final = 2**63 - 1
_MAX_SERVED: Final = 200
"""The maximum number of requests at one time that are compared with an event."""
_NUMBERS: Final = frozenset(("node", "since"))
_CONDITIONS: Final = tuple(each.name for each in fields_of(RequestFilter))
_MAX_HISTORY: Final = 10_000
_MAX_SUBJECTS: Final = 20
"""The maximum number of groups, of topics and of transactional ids whose events are searched."""


async def _requests(view: View) -> Content:
    given = _given(view.query)
    selected = read(RequestFilter, given, "the filter", noun="condition")
    until = _until(view.query)
    page = await view.source.latest_requests(selected, _ROWS, until)
    seen = view.query.whole("seen", page.last_number)
    new = max(0, page.last_number - seen)
    shown = sum(each.number is None or each.number > seen for each in page.requests)
    conditions = {name: view.query.text(name) for name in _CONDITIONS}
    return Content(
        {
            "page": page,
            "is_filtered": bool(given),
            "conditions": conditions,
            "not_shown": max(0, new - shown) if not given and until == NEWEST else 0,
            "is_newest": until == NEWEST,
            "at": view.query.text("at"),
            "apis": sorted(api_keys_by_name()),
            "errors": sorted(error_codes_by_name()),
            "logs_requests": view.source.logs_requests,
        },
        commands=(ListRequests(**_fields_of(selected)),),
        changes=(Subject.REQUESTS,) if until == NEWEST else (),
    )


def _until(query: Query) -> RequestsUntil:
    """Return where the page ends: before a number, and at a time."""
    before = query.whole("before", 0) if query.text("before") else None
    return RequestsUntil(before, instant_ms(query.text("at")) if query.text("at") else None)


def _given(query: Query) -> Mapping[str, object]:
    """Return the conditions in a query; a number that is none remains text, and is refused."""
    return {
        name: query.whole(name, 0) if name in _NUMBERS else text
        for name in _CONDITIONS
        if (text := query.text(name))
    }


def _fields_of(selected: RequestFilter) -> Mapping[str, Any]:
    return {name: getattr(selected, name) for name in _CONDITIONS}


async def _request(view: View) -> Content:
    number = view.query.whole("number", 0, minimum=0)
    found = await view.source.request(number)
    if found is None:
        raise NotFoundError(f"the log has no request with number {number}")
    return Content(
        {
            "request": found,
            "fault": await _fault(view, found.fault),
            "entries": await _entries(view, found),
            "records": await _records_of(view, found),
        },
        title=f"Request {number}",
        commands=(ListRequests(since=number - 1),),
    )


async def _fault(view: View, fault_id: str | None) -> str:
    """Return the fault that was applied in words; empty without one."""
    if fault_id is None:
        return ""
    for state in (await view.source.ask(ListFaults())).faults:
        if state.id == fault_id:
            return describe_rule(state.rule)
    return "it has been removed"


async def _entries(view: View, found: RecordedRequest) -> Sequence[HistoryEntry]:
    """Return the entries of the history that were made while the request was served."""
    answered_ms = found.received_ms + (found.latency_ms or 0)
    subjects = [
        *(Explain(group=each, limit=_MAX_HISTORY) for each in found.groups[:_MAX_SUBJECTS]),
        *(Explain(topic=each, limit=_MAX_HISTORY) for each in found.topics[:_MAX_SUBJECTS]),
        *(
            Explain(transactional_id=each, limit=_MAX_HISTORY)
            for each in found.transactional_ids[:_MAX_SUBJECTS]
        ),
    ]
    entries = [each for one in subjects for each in (await view.source.ask(one)).entries]
    return sorted(
        (each for each in entries if found.received_ms <= each.at_ms <= answered_ms), key=_number_of
    )


def _number_of(entry: HistoryEntry) -> int:
    return entry.number


async def _of_record(view: View) -> Content:
    """Return the requests that wrote a record, and whose answers had it."""
    query = view.query
    topic, partition = query.text("topic"), query.whole("partition", 0)
    offset = query.whole("offset", 0, maximum=_MAX_OFFSET)
    names = {topic, *(await _topic_ids(view, (topic,)))}

    def has_record(request: RecordedRequest) -> bool:
        return any(each.has(names, partition, offset) for each in spans_of(request))

    found: dict[str, RequestPage] = {}
    for api in APIS:
        selected = read(RequestFilter, {"api": api}, "the filter")
        found[api] = await view.source.find_requests(selected, has_record, _MAX_OF_RECORD)
    writes, *reads = found.values()
    return Content(
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "writes": writes.requests,
            "reads": [request for page in reads for request in page.requests],
            "examined": sum(page.examined for page in found.values()),
            "logs_requests": view.source.logs_requests,
        },
        title=f"Requests of {name_text(topic)}-{partition}, offset {offset}",
        commands=tuple(
            ListRequests(**_fields_of(read(RequestFilter, {"api": api}, "the filter")))
            for api in APIS
        ),
    )


async def _topic_ids(view: View, names: Iterable[str]) -> Mapping[str, str]:
    """Return the names of topics by their ids, of those that exist."""
    found = {}
    for name in names:
        with suppress(ValueError):
            found[(await view.source.ask(ShowTopic(name))).topic_id] = name
    return found


async def _records_of(view: View, request: RecordedRequest) -> Sequence[RecordSpan]:
    """Return the records that a request wrote or returned, with the names of their topics."""
    spans = [*islice(spans_of(request), _MAX_SPANS)]
    if not spans:
        return ()
    names = [*request.topics[:_MAX_SPANS]]
    if not names:  # a fetch session names topics in its first request only
        with suppress(ValueError):
            listed = (await view.source.ask(ListTopics())).topics
            names = [each.name for each in listed[:_MAX_RESOLVED]]
    by_id = await _topic_ids(view, names)
    return [each._replace(topic=by_id.get(each.topic, each.topic)) for each in spans]


async def _of_entry(view: View) -> Content:
    """Return the requests that were served when an entry of the history was made."""
    number, query = view.query.whole("entry", 0), view.query
    history = Explain(
        group=query.text("group") or None,
        transactional_id=query.text("id") or None,
        limit=_MAX_HISTORY,
    )
    explanation = await view.source.ask(history)
    entry = next((each for each in explanation.entries if each.number == number), None)
    if entry is None:
        raise NotFoundError(f"the history has no entry with number {number} any more")
    selected = RequestFilter(
        group=entry.group, transactional_id=entry.transactional_id, topic=entry.topic
    )
    served = await view.source.requests_at(selected, entry.at_ms, _MAX_SERVED)
    found = [each for each in served if _may_have_caused(each, entry)]
    return Content(
        {
            "entry": entry,
            "requests": found[:_ROWS],
            "logs_requests": view.source.logs_requests,
        },
        title="Requests of an event",
        commands=(ListRequests(**_fields_of(selected)),),
    )


def _may_have_caused(request: RecordedRequest, entry: HistoryEntry) -> bool:
    """Return whether a request that was served at the time of an event has its error, if any."""
    error = entry.facts.get("error")
    return not isinstance(error, str) or error in request.errors


def _start_log(form: Query) -> ListRequests:
    del form
    return ListRequests(limit=1)


def _stop_log(form: Query) -> StopRequestLog:
    del form
    return StopRequestLog()


SECTION: Final = Section(
    (
        Page(_PATH, "Requests", "requests.html.j2", _requests),
        Page("/request", "Request", "request.html.j2", _request, section=_PATH),
        Page("/entry", "Requests of an event", "entry.html.j2", _of_entry, section=_PATH),
        Page("/traffic", "Requests of a record", "traffic.html.j2", _of_record, section=_PATH),
    ),
    (Action("/requests/log", _start_log), Action("/requests/stop", _stop_log)),
)
