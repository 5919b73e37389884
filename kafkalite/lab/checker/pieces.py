"""Pieces of requests, by which the check of a large history is divided into shards.

A rule about records needs all requests that concern one partition, and a rule about transactions
all that concern one producer. So a shard has the pieces of some partitions, or of some producers,
and the requests that concern all of them, such as those of members. The shards find the same as one
check of the whole history.
"""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import Direction
from kafkalite.lab.checker.check import PRODUCER_RULES, RULES, UNDIVIDED_RULES, findings_of
from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.fetched_batches import (
    NEW_SESSION_EPOCHS,
    Topic,
    UnreadableBatchesError,
    batches_of,
)
from kafkalite.lab.checker.message_rows import MessageRow, message_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.batch import HEADER_SIZE, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.lab.checker.findings import Finding
    from kafkalite.lab.checker.history import Event, History

_RECORDS: Final = "records"
_UNREADABLE: Final = b"\0"


class Target(IntEnum):
    """The shards that need a piece."""

    PARTITION = 0
    """The shard of its partition."""
    PRODUCER = 1
    """The shard of its producer."""
    ALL = 2
    """All shards; one of EndTxn only those of partitions, because it also has a producer."""


class Piece(NamedTuple):
    """A part of a request and of its answer."""

    target: Target
    topic: Topic
    """Id or name of the topic; empty unless the target is a partition."""
    number: int
    """Number of the partition, or the producer id."""
    request: MessageRow | None
    """None if it cannot be decoded."""
    response: MessageRow | None
    """None without an answer."""


class PlacedPiece(NamedTuple):
    """A piece in a shard, with its request."""

    api_key: int
    request: MessageRow | None
    response: MessageRow | None
    event: Event


class _Lists(NamedTuple):
    """The nested lists in a message whose innermost rows are partitions."""

    names: tuple[str, ...]
    number: str
    """Field with the number; empty if a row is the number itself."""


class _Places(NamedTuple):
    """Where the partitions are in the requests and answers of an API."""

    request: tuple[_Lists, ...]
    response: tuple[_Lists, ...]
    is_needed_by_all: Callable[[MessageRow, MessageRow | None], bool]
    """Whether all shards need the message without its partitions."""


def _always(_: MessageRow, __: MessageRow | None) -> bool:
    return True


def _never(_: MessageRow, __: MessageRow | None) -> bool:
    return False


def _changes_session(request: MessageRow, response: MessageRow | None) -> bool:
    """Return whether a Fetch request begins or ends a session (KIP-227)."""
    return request["session_epoch"] in NEW_SESSION_EPOCHS and bool(
        request["session_id"] or (response is not None and response["session_id"])
    )


def _has_member(request: MessageRow, _: MessageRow | None) -> bool:
    return bool(request["member_id"])


_TOPICS: Final = _Lists(("topics", "partitions"), "partition_index")
_RESPONSES: Final = _Lists(("responses", "partitions"), "partition_index")

_PLACES: Final[Mapping[int, _Places]] = {
    int(ApiKey.PRODUCE): _Places(
        (_Lists(("topic_data", "partition_data"), "index"),),
        (_Lists(("responses", "partition_responses"), "index"),),
        _never,
    ),
    int(ApiKey.FETCH): _Places(
        (
            _Lists(("topics", "partitions"), "partition"),
            _Lists(("forgotten_topics_data", "partitions"), ""),
        ),
        (_RESPONSES,),
        _changes_session,
    ),
    int(ApiKey.OFFSET_COMMIT): _Places((_TOPICS,), (_TOPICS,), _has_member),
    int(ApiKey.TXN_OFFSET_COMMIT): _Places((_TOPICS,), (_TOPICS,), _has_member),
    int(ApiKey.OFFSET_FETCH): _Places(
        (), (_TOPICS, _Lists(("groups", "topics", "partitions"), "partition_index")), _always
    ),
    int(ApiKey.LIST_OFFSETS): _Places((_TOPICS,), (_TOPICS,), _never),
    int(ApiKey.SHARE_FETCH): _Places((_TOPICS,), (_RESPONSES,), _always),
    int(ApiKey.SHARE_ACKNOWLEDGE): _Places((_TOPICS,), (_RESPONSES,), _always),
}
"""APIs whose requests are divided by partition; those of the others go to all shards."""
_APIS_WITH_RECORDS: Final = frozenset(map(int, (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH)))


def pieces_of(
    api_key: int, request: MessageRow | None, response: MessageRow | None
) -> Iterator[Piece]:
    """Yield the pieces of a request and its answer, whose records are `without_records`."""
    if request is None:
        yield Piece(Target.PARTITION, "", 0, None, None)
        return
    places = _PLACES.get(api_key)
    if places is None:
        yield Piece(Target.ALL, "", 0, request, response)
        if api_key == int(ApiKey.END_TXN):
            yield Piece(Target.PRODUCER, "", request["producer_id"], request, response)
        return
    base = _emptied(request, places.request)
    answer = None if response is None else _emptied(response, places.response)
    if places.is_needed_by_all(request, response):
        yield Piece(Target.ALL, "", 0, base, answer)
    requested = _by_partition(request, base, places.request)
    answered = (
        {} if response is None or answer is None
        else _by_partition(response, answer, places.response)
    )  # fmt: skip
    for topic, number in dict.fromkeys((*requested, *answered)):
        key = topic, number
        of_partition = requested.get(key, base)
        its_answer = answered.get(key, answer)
        yield Piece(Target.PARTITION, topic, number, of_partition, its_answer)
        for producer_id in _transactional_producers(api_key, of_partition, its_answer):
            yield Piece(Target.PRODUCER, "", producer_id, of_partition, its_answer)


def _emptied(message: MessageRow, places: Sequence[_Lists]) -> MessageRow:
    return {**message, **{each.names[0]: [] for each in places}}


def _by_partition(
    message: MessageRow, base: MessageRow, places: Sequence[_Lists]
) -> dict[tuple[Topic, int], MessageRow]:
    found: dict[tuple[Topic, int], MessageRow] = {}
    for lists in places:
        name = lists.names[0]
        for key, row in _rows(message, lists.names, lists.number):
            piece = found.get(key)
            if piece is None:
                piece = found[key] = dict(base)
            if not piece[name]:
                piece[name] = []  # not that of the base
            piece[name].append(row)
    return found


def _rows(
    row: MessageRow, names: tuple[str, ...], number: str
) -> Iterator[tuple[tuple[Topic, int], Any]]:
    """Yield the partitions in the lists of a row, with that part of the list that has only them."""
    name, *rest = names
    for each in row.get(name) or ():
        if rest:
            for key, part in _rows(each, tuple(rest), number):
                yield key, {**each, rest[0]: [part]}
        else:
            yield (_topic_of(row), each[number] if number else each), each


def _topic_of(row: MessageRow) -> Topic:
    topic_id: bytes | None = row.get("topic_id")
    if topic_id and topic_id != ZERO_UUID:
        return topic_id
    return row.get("topic") or row.get("name") or ""


def _transactional_producers(
    api_key: int, request: MessageRow, response: MessageRow | None
) -> Iterable[int]:
    """Return the ids of producers whose transactions have batches or markers in a piece."""
    if api_key == int(ApiKey.PRODUCE):
        records = (
            each[_RECORDS] for topic in request["topic_data"] for each in topic["partition_data"]
        )
        needed = "is_transactional"
    elif api_key == int(ApiKey.FETCH) and response is not None:
        records = (
            each[_RECORDS] for topic in response["responses"] for each in topic["partitions"]
        )
        needed = "is_control"
    else:
        return ()
    return dict.fromkeys(
        view.producer_id
        for each in records
        for view in headers_in(each) or ()
        if getattr(view, needed)
    )


# -- records -----------------------------------------------------------------------------------


def without_records(message: Any) -> None:
    """Replace the batches in a row by their headers; those of control batches stay whole."""
    if isinstance(message, list):
        for each in message:
            without_records(each)
    elif isinstance(message, dict):
        for name, value in message.items():
            if name == _RECORDS and value:
                message[name] = _headers(value)
            elif isinstance(value, list | dict):
                without_records(value)


def _headers(records: bytes) -> bytes:
    try:
        views = batches_of(records)
    except UnreadableBatchesError:
        return _UNREADABLE
    return b"".join(
        view.data if view.is_control else memoryview(view.data)[:HEADER_SIZE] for view in views
    )


def headers_in(headers: bytes | None) -> tuple[BatchView, ...] | None:
    """Return the batches whose headers `without_records` left; None if they were unreadable."""
    if headers == _UNREADABLE:
        return None
    views, position, data = [], 0, memoryview(headers or b"")
    while position < len(data):
        view = BatchView(data[position:])
        views.append(view)
        position += view.size if view.is_control else HEADER_SIZE
    return tuple(views)


def _with_views(message: Any) -> None:
    """Replace headers in a row by batches; unreadable ones stay as they are.

    Shards of one process may have the same row, so it may have batches already.
    """
    if isinstance(message, list):
        for each in message:
            _with_views(each)
    elif isinstance(message, dict):
        for name, value in message.items():
            if name == _RECORDS and isinstance(value, bytes) and value:
                views = headers_in(value)
                message[name] = value if views is None else views
            elif isinstance(value, list | dict):
                _with_views(value)


# -- shards ------------------------------------------------------------------------------------


class Shard(NamedTuple):
    """The history of some partitions or producers, and what the rules about them found."""

    history: History
    findings: list[Finding]


def check_shard(
    pieces: Iterable[PlacedPiece],
    target: Target,
    *,
    is_first: bool = False,
    are_ordered: bool = False,
) -> Shard:
    """Return the history that some pieces have, and the findings of the rules about them.

    `target` is what the shard has: partitions or producers. The first shard also finds what needs
    neither, because all shards have the requests for it. With `are_ordered`, the pieces come in the
    order of `piece_order`, and are not all in memory at the same time.
    """
    collector = Collector()
    ordered = pieces if are_ordered else sorted(pieces, key=piece_order)
    for _, of_request in groupby(ordered, key=piece_order):
        collector.add(_observation([*of_request]))
    history = collector.finish()
    rules = [
        each
        for each in RULES
        if (
            is_first
            if each in UNDIVIDED_RULES
            else (each in PRODUCER_RULES) is (target is Target.PRODUCER)
        )
    ]
    return Shard(history, findings_of(history, rules))


def piece_order(piece: PlacedPiece) -> tuple[Any, ...]:
    """Return a key that orders pieces by the time of their answers; unanswered ones are last."""
    event = piece.event
    is_unanswered = event.answered_ns is None
    return (
        is_unanswered, event.answered_ns or event.sent_ns, event.sent_ns, event.connection,
        event.proof.offset, getattr(event.proof, "request", 0),
    )  # fmt: skip


def _observation(pieces: Sequence[PlacedPiece]) -> Observation:
    api_key, event = pieces[0].api_key, pieces[0].event
    places = _PLACES.get(api_key)
    request = _joined([each.request for each in pieces], () if places is None else places.request)
    response = _joined(
        [each.response for each in pieces], () if places is None else places.response
    )
    if api_key in _APIS_WITH_RECORDS:
        _with_views(request)
        _with_views(response)
    return Observation(
        api_key,
        None if request is None else message_of(api_key, Direction.REQUEST, request),
        None if response is None else message_of(api_key, Direction.RESPONSE, response),
        event,
    )


def _joined(messages: Sequence[MessageRow | None], places: Sequence[_Lists]) -> MessageRow | None:
    """Return the pieces of a message as one message with all their partitions."""
    first, *others = messages
    if first is None or not others:
        return first
    result = dict(first)
    for name in (each.names[0] for each in places):
        rows: list[Any] = []
        for message in messages:
            rows += (each for each in (message or {}).get(name) or () if each not in rows)
        result[name] = rows
    return result
