"""The pages about topics: the list, a topic, its records, a record, and the form for a new one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import quote
from kafkalite.control.commands.clock import ShowClock
from kafkalite.control.commands.records import DEFAULT_READ, ReadRecords
from kafkalite.control.commands.topics import CreateTopic, DeleteTopic, ListTopics, ShowTopic
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.console.command_forms import inputs_of, sender
from kafkalite.control.console.coordinator_values import decoded_records
from kafkalite.control.console.page import (
    Action,
    Content,
    NotFoundError,
    Page,
    Pager,
    Section,
    each_of,
    rows_of,
    url_of,
)
from kafkalite.control.console.produce_form import (
    ENCODINGS,
    MAX_COPIED_BYTES,
    FormRecord,
    form_record,
    produce_command,
)
from kafkalite.control.console.record_texts import AUTO, FORMATS, show, show_line
from kafkalite.control.console.source import RecordSearch, Subject, TopicRecords
from kafkalite.control.console.texts import name_text
from kafkalite.control.time_travel.points import point_of
from kafkalite.control.topic_records import UnknownTopicError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.commands.records import Positions
    from kafkalite.control.commands.topics import TopicStatus
    from kafkalite.control.console.forms import Query
    from kafkalite.control.console.page import View
    from kafkalite.control.console.schema_values import Decoded
    from kafkalite.control.console.source import BrowsedRecord, RecordWindow

_PATH: Final = "/topics"
_ROWS: Final = 50
_MAX_INDEX: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1
_MAX_KEY: Final = 48
_MAX_HEADER: Final = 24
_MAX_HEADERS: Final = 100
_MAX_HEADER_BYTES: Final = 2_000
_MAX_LINE_HEADERS: Final = 3
_OPEN: Final = "open"
_HIDDEN_STATES: Final = frozenset((_OPEN, "aborted"))


async def _topics(view: View) -> Content:
    searched, internal = view.query.text("q"), bool(view.query.text("internal"))
    part = searched.lower()
    pager, hidden = Pager(view.query), 0
    async for each in each_of((await view.source.ask(ListTopics())).topics):
        hidden += each.internal
        if part in each.name.lower() and (internal or not each.internal):
            pager.add(each)
    return Content(
        {
            "rows": pager.rows(),
            "searched": searched,
            "internal": internal,
            "hidden": hidden,
            "inputs": inputs_of(CreateTopic),
        },
        commands=(ListTopics(),),
        changes=(Subject.HISTORY,),
    )


async def _topic(view: View) -> Content:
    topic = await _status(view)
    settings = await view.source.settings(topic.name)
    rows = rows_of(topic.partitions, view.query)
    shown = [each.partition for each in rows.rows]
    return Content(
        {
            "topic": topic,
            "rows": rows,
            "changed": [each for each in settings if each.is_changed],
            "settings": [each for each in settings if not each.is_changed],
            "records": sum(each.end_offset - each.start_offset for each in topic.partitions),
        },
        title=f"Topic {name_text(topic.name)}",
        commands=(ShowTopic(topic.name),),
        changes=(Subject.HISTORY, *_records_of(topic.name, shown)),
    )


def _records_of(topic: str, partitions: Sequence[int]) -> Sequence[TopicRecords]:
    """Return what changes a page about partitions: none for a topic without replicas here."""
    return (TopicRecords(topic, partitions[0], partitions[-1]),) if partitions else ()


async def _status(view: View) -> TopicStatus:
    """Return the topic in the field `topic`."""
    name = view.query.text("topic")
    if not name:
        raise ValueError("topic must be the name of a topic, as in /console/topic?topic=orders")
    try:
        return await view.source.ask(ShowTopic(name))
    except UnknownTopicError as error:
        raise NotFoundError(f"{error}") from error


async def _records(view: View) -> Content:
    topic = await _status(view)
    query = view.query
    partition = query.whole("partition", 0, maximum=_MAX_INDEX)
    now_ms = await _now_ms(view)
    key = query.optional("key")
    search = RecordSearch(
        topic.name,
        partition,
        _offset(query),
        _time_ms(query, now_ms),
        None if key is None else key.encode(),
        query.text("text"),
        _ROWS,
    )
    window = await view.source.records(search)
    decoded = await _decoded(view, topic.name, window.records)
    fields = {
        "topic": topic.name,
        "partition": partition,
        "key": key,
        "text": search.text,
        "as": _format(query),
    }
    command = ReadRecords(
        topic.name, partition, window.start, "read_uncommitted", limit=DEFAULT_READ
    )
    return Content(
        {
            "topic": topic,
            "partition": partition,
            "window": window,
            "search": search,
            "fields": fields,
            "has_states": any(each.state for each in window.records),
            "rows": [_row(each, _format(query), decoded) for each in window.records],
            "offset": query.text("offset"),
            "at": query.text("at"),
            "format": _format(query),
            "formats": FORMATS,
            "earlier": _earlier(window, search),
        },
        title=f"Records of {name_text(topic.name)}-{partition}",
        commands=(command,),
        changes=_changes(search, is_last=window.next_offset >= window.end_offset),
    )


def _changes(search: RecordSearch, *, is_last: bool) -> Sequence[TopicRecords]:
    """Return what changes a page: new records, if it has the last ones."""
    return (TopicRecords(search.topic, search.partition, search.partition),) if is_last else ()


def _offset(query: Query) -> int | None:
    """Return the number in the field `offset`; None for the last records."""
    return query.whole("offset", 0, maximum=_MAX_OFFSET) if query.text("offset") else None


def _time_ms(query: Query, now_ms: int | None) -> int | None:
    """Return the time in the field `at`, which is used if there is no offset."""
    text = query.text("at")
    if not text or query.text("offset"):
        return None
    point = point_of(text, now_ms if now_ms is not None else 2**53)
    if point.time_ms is None:
        raise ValueError(
            f"at must be a time, such as 2026-03-01T12:00:00Z or 5m, not {quote(text)}"
        )
    return point.time_ms


async def _now_ms(view: View) -> int | None:
    """Return the time of the cluster; None if a program that embeds the broker controls it."""
    try:
        return (await view.source.ask(ShowClock())).now_ms
    except ValueError:
        return None


def _format(query: Query) -> str:
    wished = query.text("as", AUTO)
    if wished not in FORMATS:
        raise ValueError(f"as must be {', '.join(FORMATS)}, not {quote(wished)}")
    return wished


def _earlier(window: RecordWindow, search: RecordSearch) -> int | None:
    """Return the offset of the previous window; None for the first one and for a filter."""
    if window.start <= window.first_offset or search.is_filtered:
        return None
    return max(window.first_offset, window.start - search.limit)


async def _decoded(
    view: View, topic: str, records: Sequence[BrowsedRecord]
) -> Mapping[bytes | None, Decoded]:
    """Return the keys and values that have a schema, unless another format is selected."""
    if _format(view.query) != AUTO:
        return {}
    found = decoded_records(topic, records)
    if found or view.decoder is None:
        return found
    return await view.decoder.decode(part for each in records for part in (each.key, each.value))


def _row(
    record: BrowsedRecord, wished: str, decoded: Mapping[bytes | None, Decoded]
) -> Mapping[str, Any]:
    return {
        "record": record,
        "key": show_line(record.key, wished, _MAX_KEY, decoded.get(record.key)),
        "value": show_line(record.value, wished, decoded=decoded.get(record.value)),
        "headers": [
            (name, show_line(value, AUTO, _MAX_HEADER))
            for name, value in record.headers[:_MAX_LINE_HEADERS]
        ],
        "more_headers": max(0, len(record.headers) - _MAX_LINE_HEADERS),
    }


async def _one(view: View) -> BrowsedRecord:
    """Return the record with the partition and the offset in the query."""
    query = view.query
    topic, partition = query.text("topic"), query.whole("partition", 0, maximum=_MAX_INDEX)
    offset = query.whole("offset", 0, maximum=_MAX_OFFSET)
    window = await view.source.records(RecordSearch(topic, partition, offset, limit=1))
    if not window.records or window.records[0].offset != offset:
        raise NotFoundError(f"{name_text(topic)}-{partition} has no record at offset {offset}")
    return window.records[0]


async def _record(view: View) -> Content:
    topic = await _status(view)
    record = await _one(view)
    query = view.query
    partition, wished = query.whole("partition", 0), _format(query)
    fields = {"topic": topic.name, "partition": partition, "offset": record.offset}
    isolation = "read_uncommitted" if record.state in _HIDDEN_STATES else "read_committed"
    command = ReadRecords(topic.name, partition, record.offset, isolation, limit=1)
    decoded = await _decoded(view, topic.name, (record,))
    return Content(
        {
            "topic": topic,
            "record": record,
            "transactional_id": await _transactional_id(view, record),
            "partition": partition,
            "fields": fields,
            "key": show(record.key, wished, decoded.get(record.key)),
            "value": show(record.value, wished, decoded.get(record.value)),
            "headers": [
                (name, show(value, limit=_MAX_HEADER_BYTES))
                for name, value in record.headers[:_MAX_HEADERS]
            ],
            "more_headers": max(0, len(record.headers) - _MAX_HEADERS),
            "format": wished,
            "formats": FORMATS,
            "is_data": not record.state.endswith("marker") and record.state != "unreadable",
        },
        title=f"{name_text(topic.name)}-{partition}, offset {record.offset}",
        commands=(command,),
        changes=_changes(RecordSearch(topic.name, partition), is_last=record.state == _OPEN),
    )


async def _transactional_id(view: View, record: BrowsedRecord) -> str | None:
    """Return the transactional id that has the producer of a record of a transaction now."""
    if not record.state or record.state == "unreadable":
        return None
    with suppress(ValueError):
        for each in (await view.source.ask(ListTransactions())).transactions:
            if each.producer_id == record.producer_id:
                return each.transactional_id
    return None


async def _produce(view: View) -> Content:
    topic = await _status(view)
    copied, problem, partition = FormRecord(), "", view.query.text("partition")
    if view.query.text("offset"):
        record = await _one(view)
        if record.size > MAX_COPIED_BYTES:
            problem = (
                f"The record has {record.size:,} bytes, and a form at most {MAX_COPIED_BYTES:,}: "
                "it is not copied."
            )
        else:
            copied = form_record(record.key, record.value, record.headers)
    return Content(
        {
            "topic": topic,
            "copied": copied,
            "problem": problem,
            "partition": partition,
            "encodings": ENCODINGS,
        },
        title=f"Produce to {name_text(topic.name)}",
    )


def _produced(form: Query, answer: Positions) -> str:
    """Return the address of the record that was written."""
    (position,) = answer.positions
    topic = form.text("topic")
    return url_of("/record", topic=topic, partition=position.partition, offset=position.offset)


SECTION: Final = Section(
    (
        Page(_PATH, "Topics", "topics.html.j2", _topics),
        Page("/topic", "Topic", "topic.html.j2", _topic, section=_PATH),
        Page("/records", "Records", "records.html.j2", _records, section=_PATH),
        Page("/record", "Record", "record.html.j2", _record, section=_PATH),
        Page(
            "/produce",
            "Produce",
            "produce.html.j2",
            _produce,
            section=_PATH,
            needs_broker=True,
        ),
    ),
    (
        Action(
            "/topics/create",
            sender(CreateTopic),
            next=lambda form, _: url_of("/topic", topic=form.text("name")),
        ),
        Action("/topics/delete", sender(DeleteTopic), is_dangerous=True),
        Action("/topics/produce", produce_command, next=_produced),
    ),
)
