"""Exchanges: what observers of a gateway see of requests, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.table import TABLE, find_api
from kafkalite.gateway.exchanges import Exchange, Observers, names_in_request
from kafkalite.gateway.fault_rules import rule_of
from kafkalite.gateway.responder import ResponderAnswer
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.message import Message
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.versions import Versions
from kafkalite.server.broker import Broker
from kafkalite.server.request_log import LoggedRequest
from kafkalite.server.settings import Settings
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import PendingAnswer, Session, SessionSettings
from tests.properties.codec_samples import Samples, all_specs
from tests.unit.exchanges import end, report_no_error
from tests.unit.frames import header, request_content, request_frame, response_frame
from tests.unit.gateway.served import BEAT, HEARTBEAT, Served, alive
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.testing.clock import ManualClock


SAMPLE_COUNT = 8


def observed(served: Served) -> list[Exchange]:
    """Return a list that gets the exchanges from now on."""
    exchanges: list[Exchange] = []
    served.gateway.subscribe(exchanges.append)
    return exchanges


def test_an_exchange_has_the_request_and_the_answer() -> None:
    served = Served(alive)
    exchanges = observed(served)
    frame = request_frame(BEAT, 3)
    size = served.send(frame)
    (exchange,) = exchanges
    assert (exchange.api_key, exchange.version, exchange.correlation_id) == (HEARTBEAT, 3, 1)
    assert (exchange.request_bytes, exchange.answer_bytes) == (len(frame) - 4, size)
    logged = LoggedRequest(1, exchange)
    assert logged.request == {
        "groupId": "g", "generationId": 3, "memberId": "m", "groupInstanceId": None,
    }  # fmt: skip
    assert logged.response == {"throttleTimeMs": 7, "errorCode": 0}
    assert exchange.names(Entity.GROUP) == ("g",)
    assert exchange.error_codes() == []
    assert not exchange.is_pending
    assert exchange.refusals == ()


def test_the_exchange_of_a_refused_request_has_the_reason() -> None:
    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "is old")

    served = Served(refuse)
    exchanges = observed(served)
    served.send(request_frame(BEAT, 4))
    (exchange,) = exchanges
    assert exchange.error_codes() == [ErrorCode.ILLEGAL_GENERATION]
    (refusal,) = exchange.refusals
    assert (refusal.entity_id, refusal.error.message) == ("g", "is old")
    assert len(served.history.about("g")) == 1


def test_a_pending_exchange_is_seen_without_and_with_its_answer() -> None:
    waiting: Waiting[HeartbeatResponse] = Waiting()
    served = Served(lambda *_: waiting)
    exchanges: list[Exchange] = []
    states: list[tuple[bool, bool, int]] = []

    def observe(exchange: Exchange) -> None:
        exchanges.append(exchange)
        states.append((exchange.is_pending, exchange.was_pending, exchange.answer_bytes))

    served.gateway.subscribe(observe)
    pending = served.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    served.context.node.clock.advance(5)  # type: ignore[attr-defined]  # a ManualClock
    size = pending.encode(HeartbeatResponse(), served.out)
    asked, answered = exchanges
    assert asked is answered
    assert states == [(True, False, 0), (False, True, size)]
    assert answered.answered_ms is not None
    assert answered.answered_ms - answered.received_ms == 5


@pytest.mark.parametrize("is_later", [False, True])
def test_a_request_that_closes_its_connection_has_the_reason(is_later: bool) -> None:  # noqa: FBT001
    waiting: Waiting[HeartbeatResponse] = Waiting()

    def disconnect(*_: object) -> Waiting[HeartbeatResponse]:
        if is_later:
            return waiting
        raise DisconnectError("on purpose")

    served = Served(disconnect)
    exchanges = observed(served)

    def answer() -> None:
        pending = served.send(request_frame(BEAT, 4))
        assert isinstance(pending, PendingAnswer)
        pending.encode(DisconnectError("on purpose"), served.out)

    with pytest.raises(DisconnectError):
        answer()
    assert exchanges[-1].closing_reason == "on purpose"
    assert exchanges[-1].answer_bytes == 0


def test_a_bug_in_the_encoding_of_an_answer_ends_the_exchange() -> None:
    served = Served(lambda *_: object())
    exchanges = observed(served)
    with pytest.raises(ProtocolViolation):
        served.send(request_frame(BEAT, 4))
    (exchange,) = exchanges
    assert exchange.closing_reason == "Heartbeat v4 failed because of a bug"


def test_a_client_that_disconnects_before_the_answer_ends_the_exchange() -> None:
    waiting: Waiting[HeartbeatResponse] = Waiting()
    served = Served(lambda *_: waiting)
    exchanges = observed(served)
    settings = SessionSettings(
        buffers=ReceiveBuffers(),
        serve=served.gateway.serve,
        serve_in_worker=served.gateway.serve_in_worker,
        wake=lambda _: None,
        max_request_bytes=1024,
        max_buffered_bytes=1024,
    )
    session = Session(settings, served.context, None)
    frame = request_frame(BEAT, 4)
    session.get_buffer()[: len(frame)] = frame
    session.buffer_updated(len(frame))
    session.serve()
    assert [each.is_pending for each in exchanges] == [True]
    session.close()
    assert [each.is_pending for each in exchanges] == [False, False]
    assert exchanges[-1].closing_reason == "the client disconnected before the answer"
    assert exchanges[-1].was_pending
    waiting.refuse(LookupError("a bug"))
    assert [str(each) for each in served.faults] == ["a bug"]
    assert len(exchanges) == 2


def test_an_exception_of_an_observer_is_reported() -> None:
    served = Served(alive)

    def fail(_: Exchange) -> None:
        raise ValueError("of the observer")

    served.gateway.subscribe(fail)
    exchanges = observed(served)
    assert served.send(request_frame(BEAT, 4))
    assert [each.error_codes() for each in exchanges] == [[]]
    assert [str(error) for error in served.faults] == ["of the observer"]


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0() -> None:
    def refuse(_: object, code: ErrorCode, __: object) -> ApiVersionsResponse:
        return ApiVersionsResponse(error_code=code)

    # As with --as-version: the codec has version 3, but the broker does not serve it.
    served = Served(alive, key=18, versions=Versions(0, 2), refusal=refuse)
    exchanges = observed(served)
    served.send(request_frame(ApiVersionsRequest(), 3))
    (exchange,) = exchanges
    assert (exchange.version, exchange.response_version) == (3, 0)
    assert LoggedRequest(1, exchange).response == {"errorCode": 35, "apiKeys": []}


def test_a_request_without_an_answer_is_complete() -> None:
    served = Served(lambda *_: None)
    exchanges = observed(served)
    assert served.send(request_frame(BEAT, 4)) == 0
    (exchange,) = exchanges
    assert (exchange.is_pending, exchange.answer_bytes, exchange.response) == (False, 0, None)
    assert exchange.error_codes() == []


def test_repeated_requests_are_observed_and_not_decoded_again() -> None:
    constant = HeartbeatResponse()
    served = Served(lambda *_: constant, is_repeated=True)
    frame = request_frame(BEAT, 4)
    for _ in range(2):
        served.send(frame)
    exchanges = observed(served)
    second = observed(served)
    for number in range(3):
        served.send(request_frame(BEAT, 4, correlation_id=number))
    assert len(exchanges) == len(second) == 3
    assert [each.correlation_id for each in exchanges] == [0, 1, 2]
    assert [each.request for each in exchanges] == [BEAT] * 3
    assert [each.error_codes() for each in exchanges] == [[]] * 3
    for each in (exchanges, second):
        served.gateway.unsubscribe(each.append)
        served.gateway.unsubscribe(each.append)
    for _ in range(3):
        served.send(frame)
    assert len(exchanges) == 3
    assert len({*map(id, served.requests)}) == 1
    assert served.context.exchange is None


@pytest.mark.parametrize("is_later", [False, True])
def test_answers_of_a_responder_are_observed(is_later: bool) -> None:  # noqa: FBT001
    response = HeartbeatResponse(error_code=16)
    waiting: Waiting[HeartbeatResponse] = Waiting()
    frame = response_frame(response, 4)

    def encode(_: object, out: list[bytes | memoryview]) -> int:
        out.append(frame)
        return len(frame)

    def respond(*_: object) -> ResponderAnswer:
        return ResponderAnswer(BEAT, waiting if is_later else response, encode)

    served = Served(alive)
    exchanges = observed(served)
    served.gateway.install_responder(
        cast("Any", SimpleNamespace(respond=respond, close=lambda: None))
    )
    result = served.send(request_frame(BEAT, 4))
    if isinstance(result, PendingAnswer):
        assert [each.is_pending for each in exchanges] == [True]
        result.encode(response, served.out)
    assert served.out == [frame]
    assert exchanges[-1].error_codes() == [16]
    assert (exchanges[-1].answer_bytes, exchanges[-1].was_pending) == (len(frame), is_later)
    assert exchanges[-1].request == BEAT


def error_fields(message: Any) -> Iterator[tuple[Any, str]]:  # noqa: ANN401 - any struct
    """Yield each field with an error code, and its struct."""
    for name in message.__slots__:
        value = getattr(message, name)
        if "error" in name and isinstance(value, int):
            yield message, name
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Message):
                yield from error_fields(each)


@pytest.mark.parametrize("key", TABLE)
def test_every_error_code_of_a_response_is_found(key: int) -> None:
    row = TABLE[key]
    spec = all_specs()[f"{row.name}Response"]
    samples = Samples(row.name, with_unknown_tags=False)
    existing: set[tuple[type, str]] = set()
    found: set[tuple[type, str]] = set()
    served = Served(alive)
    observers = Observers((), report_no_error)

    def codes(version: int, response: object) -> list[int] | None:
        content = bytearray(header(key, version))
        exchange = observers.begin(served.context, content, 0, len(content), None)
        return end(exchange, response).error_codes()

    for version in (*range(row.lowest, row.highest + 1), *[row.highest] * SAMPLE_COUNT):
        response = samples.draw(message_tree(spec, version))
        fields = list(error_fields(response))
        for struct, name in fields:
            setattr(struct, name, 0)
        assert codes(version, response) == []
        for struct, name in fields:
            existing.add((type(struct), name))
            setattr(struct, name, 31)
            if found_codes := codes(version, response):  # the version has the field
                assert found_codes == [31]
                found.add((type(struct), name))
            setattr(struct, name, 0)
    assert found == existing != set()


@pytest.mark.parametrize("key", TABLE)
def test_names_are_found_in_requests_of_all_versions(key: int) -> None:
    """They are those of the request in the structure of the latest version."""
    row, api = TABLE[key], find_api(key)
    assert api is not None
    samples = Samples(row.name, with_unknown_tags=False)
    observers = Observers((), report_no_error)
    context = Served(alive).context
    for version in range(row.lowest, row.highest + 1):
        request = samples.draw(message_tree(all_specs()[f"{row.name}Request"], version))
        content = bytearray(request_content(request, version))
        exchange = observers.begin(context, content, 0, len(content), request)
        lifted = request if api.lift is None else api.lift(request, version)
        for kind in (Entity.GROUP, Entity.TOPIC, Entity.TRANSACTIONAL_ID):
            names = set(names_in_request(context.node.image, key, kind, lifted))
            assert set(exchange.names(kind)) == names


def test_requests_of_a_batch_have_its_times() -> None:
    context = Served(alive).context
    clock = cast("ManualClock", context.node.clock)
    observers = Observers((), report_no_error)
    content = bytearray(request_content(BEAT, 4))
    first = observers.begin(context, content, 0, len(content), BEAT)
    clock.advance(5)
    second = observers.begin(context, content, 0, len(content), BEAT, is_in_batch=True)
    observers.batch_ms = 0
    end(first, HeartbeatResponse())
    clock.advance(5)
    end(second, HeartbeatResponse())
    assert second.received_ms == first.received_ms
    assert second.answered_ms == first.answered_ms == first.received_ms + 5


async def test_observers_come_and_go_while_a_client_is_connected() -> None:
    broker = Broker(Settings(listen=("127.0.0.1:0",)))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    exchanges: list[Exchange] = []

    async def beat() -> None:
        """Send a heartbeat to a node without a coordinator."""
        await client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)

    await beat()
    broker.subscribe(exchanges.append)
    await beat()
    broker.faults.add(rule_of({"api": "Heartbeat", "error": "ILLEGAL_GENERATION"}))
    await beat()
    broker.unsubscribe(exchanges.append)
    await beat()
    assert [each.error_codes() for each in exchanges] == [
        [ErrorCode.NOT_COORDINATOR],
        [ErrorCode.ILLEGAL_GENERATION],
    ]
    assert [each.fault for each in exchanges] == [None, "f1"]
    assert exchanges[0].refusals[0].entity_id == "g"
    await client.close()
    await broker.stop()


async def test_batched_commits_remain_batched_while_they_are_observed() -> None:
    """They are seen as pending, because their answers leave after the batch is in the log."""
    broker = Broker(Settings(listen=("127.0.0.1:0",)))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    exchanges: list[Exchange] = []
    broker.subscribe(exchanges.append)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=3)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
    await client.ask(request, 8)
    assert [each.request.group_id for each in exchanges] == ["g"] * len(exchanges)
    assert not exchanges[-1].is_pending
    await client.close()
    await broker.stop()
