"""Hostile requests of every API: others wait for few calls only, and memory is limited.

The requests are generated from the schemas. The tests count elements, and function calls between
two pauses, which do not depend on the machine. One test sends requests of
`socket.request.max.bytes` to a real process.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.apis.table import TABLE, find_api
from kafkalite.ports.turns import ThreadCall
from kafkalite.ports.workers import Worker
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.codec_helpers import MAX_LIST_ELEMENTS
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.long_messages import long_message_parser
from tests.perf.fairness import measure_hostile_requests
from tests.perf.hostile_requests import (
    HEADER_TAGS,
    LIST,
    TAGS,
    TOPIC_IDS,
    all_places,
    body_start,
    distinct_places,
    hostile_frame,
)
from tests.perf.socketless_broker import SocketlessBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from tests.perf.hostile_requests import Place

pytestmark = pytest.mark.endurance

_KEYS: Final = sorted(TABLE)
_NAMES: Final = [codec.api_name(key) for key in _KEYS]

_LIMIT: Final = 100
_ELEMENTS: Final = 2_000
_TOPICS: Final = 400
"""Number of elements of a CreateTopics request, each of which creates a topic."""
_MAX_BYTES_PER_ELEMENT: Final = 300
"""Enough for the rows of every list."""

_MAX_CALLS: Final = 3_000
"""Number of function calls between two pauses that is always allowed."""
_MAX_CALLS_PER_ELEMENT_AT_ONCE: Final = 40
"""Maximum number of function calls for each element of a request that one decision handles."""
_MAX_MEMORY_RATIO: Final = 10

_MAX_GROWTH: Final = 1.2
"""Growth of the number of calls between two pauses, if a request has twice as many elements."""


def _broker(directory: Path) -> SocketlessBroker:
    broker = SocketlessBroker(
        str(directory),
        {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"},
    )
    topic = CreateTopicsRequest.CreatableTopic(name="topic", num_partitions=4, replication_factor=1)
    (created,) = broker.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7).topics
    TOPIC_IDS["topic"] = created.topic_id
    return broker


def _serve(
    broker: SocketlessBroker, frame: bytes, on_turn: Callable[[], None] = lambda: None
) -> None:
    """Serve a request in turns that end at the first pause."""

    def task() -> None:
        with suppress(ProtocolViolation):  # a real connection is closed
            broker.send(frame)()

    worker = Worker()
    worker.task = task
    on_turn()
    while (outcome := worker.take_turn(0.0)) is not None:
        if isinstance(outcome, ThreadCall):
            outcome.run()
        on_turn()
    worker.end()


def _calls_between_pauses(broker: SocketlessBroker, frame: bytes) -> int:
    """Return the maximum number of calls in a turn."""
    counts: list[int] = []

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        counts[-1] += event in {"call", "c_call"}

    def begin_turn() -> None:
        counts.append(0)

    # A new greenlet has no profile function, so the task sets it.
    send = broker.send

    def profiled(request: bytes) -> Callable[[], bytes | None]:
        sys.setprofile(count)
        try:
            return send(request)
        finally:
            sys.setprofile(None)

    broker.send = profiled  # type: ignore[method-assign]
    try:
        _serve(broker, frame, begin_turn)
    finally:
        broker.send = send  # type: ignore[method-assign]
    return max(counts)


@pytest.mark.parametrize("key", _KEYS, ids=_NAMES)
def test_the_elements_of_every_list_are_limited(key: int) -> None:
    """In each version, each list and each section of tagged fields at any depth is counted."""
    uncounted = []
    for place in all_places(key):
        if place.kind not in {LIST, TAGS} or place.path == HEADER_TAGS:
            continue
        frame = hostile_frame(place, 1 << 20, _LIMIT + 50)
        if not _is_refused(place, frame):
            uncounted.append(str(place))
    assert uncounted == []


def _is_refused(place: Place, frame: bytes) -> bool:
    """Return whether the parser refuses a request because it has more than _LIMIT elements."""
    parse = long_message_parser(codec.request_parser(place.key, place.version), _LIMIT)
    refusals = []

    def task() -> None:
        try:
            parse(frame, body_start(place), len(frame))
        except ProtocolViolation as violation:
            refusals.append(violation)

    worker = Worker()
    worker.task = task
    assert worker.take_turn(inf) is None
    worker.end()
    return bool(refusals)


@pytest.mark.parametrize("key", _KEYS, ids=_NAMES)
def test_others_wait_for_few_calls(
    key: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small requests stand for large ones.
    monkeypatch.setattr("kafkalite.gateway.gateway._MAX_BYTES_WITHOUT_PAUSES", 0)
    broker = _broker(tmp_path)
    api = find_api(key)
    assert api is not None
    elements = _TOPICS if key == CreateTopicsRequest.API_KEY else _ELEMENTS
    exceeding = {}
    for place in distinct_places(key):
        if place.kind != LIST:
            continue
        _serve(broker, hostile_frame(place, 100, 1))  # the first request imports code
        calls = _calls_for(broker, place, elements)
        if calls <= _MAX_CALLS:
            continue
        if api.max_elements < MAX_LIST_ELEMENTS and key != CreateTopicsRequest.API_KEY:
            is_exceeded = calls > _MAX_CALLS_PER_ELEMENT_AT_ONCE * elements
        else:
            is_exceeded = calls > _MAX_GROWTH * _calls_for(broker, place, elements // 2)
        if is_exceeded:
            exceeding[str(place)] = calls
    broker.close()
    assert exceeding == {}


def _calls_for(broker: SocketlessBroker, place: Place, elements: int) -> int:
    frame = hostile_frame(place, _MAX_BYTES_PER_ELEMENT * elements, elements)
    return _calls_between_pauses(broker, frame)


def test_commits_and_heartbeats_of_many_topics_are_served(tmp_path: Path) -> None:
    """Kafka serves one consumer with more than 10,000 topics: its batches have less than 1 MB."""
    count = 16_000
    offset = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id="group",
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=f"t{number}", partitions=[offset])
            for number in range(count)
        ],
    )
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=bytes(15) + b"1", partitions=[0])
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="unknown",
        member_epoch=1,
        subscribed_topic_names=[f"t{number}" for number in range(count)],
        topic_partitions=[owned] * count,
    )
    broker = _broker(tmp_path)
    answers: list[Any] = []

    def task() -> None:
        answers.extend((broker.call(commit, 9), broker.call(heartbeat, 1)))

    worker = Worker()
    worker.task = task
    while worker.take_turn(inf) is not None:
        pass  # it asks for memory
    worker.end()
    broker.close()
    committed, refused = answers
    assert len(committed.topics) == count
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.endurance
def test_the_largest_requests_need_little_memory_and_expel_no_member() -> None:
    """One request of `socket.request.max.bytes` for a list, or another place, of each API."""
    all_of = [distinct_places(key) for key in _KEYS]
    places = [next((p for p in each if p.kind == LIST), each[0]) for each in all_of if each]
    for outcome in measure_hostile_requests([(place, 1 << 40) for place in places]):
        assert outcome.memory_ratio <= _MAX_MEMORY_RATIO, outcome
        assert not outcome.has_expelled_member, outcome
