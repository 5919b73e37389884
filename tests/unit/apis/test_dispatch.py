"""From frames to answers: the three kinds of error, repetition, and clients from the future."""

from __future__ import annotations

from struct import pack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.context import RequestContext, Run
from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.coordinator.journal import Journal
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.versions import Versions
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.session import Owed
from tests.unit.frames import framed, header, read_answer, request_frame, split_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import Services

HEARTBEAT = 12
API_VERSIONS = 18
BEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def refuse(_: object, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    del message
    return HeartbeatResponse(error_code=code)


class Served:
    """A dispatcher for one API, and everything that came of it."""

    def __init__(self, handler: Callable[..., Any], **row: Any) -> None:  # noqa: ANN401
        self.requests: list[HeartbeatRequest] = []
        self.faults: list[Exception] = []
        self.handler = handler
        self.journal = Journal()
        self.api = api = Api(
            key=HEARTBEAT,
            versions=Versions(0, 4),
            handler=self.handle,
            refuse=row.pop("refuse", refuse),
            **row,
        )
        self.dispatcher = Dispatcher(
            {HEARTBEAT: api}.get, lambda _, fault: self.faults.append(fault)
        )
        self.context = RequestContext(
            services=cast("Services", SimpleNamespace(journal=self.journal, clock=ManualClock())),
            node_id=1,
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )
        self.out: list[bytes | memoryview] = []

    def handle(self, context: RequestContext, request: HeartbeatRequest) -> object:
        self.requests.append(request)
        return self.handler(context, request)

    def send(self, frame: bytes) -> int | Owed:
        # What stands around a frame in the receive buffer must not matter.
        buffer = bytearray(b"before" + frame + b"after")
        start = len(b"before") + 4
        return self.dispatcher.dispatch(
            self.context, buffer, start, len(b"before") + len(frame), self.out
        )

    def answer(self, version: int) -> tuple[int, HeartbeatResponse]:
        (content,) = split_frames(b"".join(self.out))
        self.out.clear()
        return read_answer(HEARTBEAT, version, content)


def alive(_: RequestContext, __: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=7)


@pytest.mark.parametrize("version", range(5))
def test_a_request_meets_its_handler_in_every_version(version: int) -> None:
    served = Served(alive)
    size = served.send(request_frame(BEAT, version, correlation_id=99))
    assert size == len(b"".join(served.out))
    correlation_id, answer = served.answer(version)
    assert correlation_id == 99
    assert answer.error_code == 0
    assert served.requests == [BEAT]
    assert served.context.client_id == "test"
    assert served.context.api_version == version


@pytest.mark.parametrize(
    ("client_id", "name"), [(None, None), (b"", ""), (b"\xff", "\ufffd"), ("ü".encode(), "ü")]
)
def test_clients_are_known_by_the_name_they_give(client_id: bytes | None, name: str) -> None:
    served = Served(alive)
    served.send(request_frame(BEAT, 0))
    served.send(request_frame(BEAT, 0, client_id=client_id))
    assert served.context.client_id == name


def test_the_era_of_a_version_is_looked_up() -> None:
    seen = []

    def handler(context: RequestContext, _: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(context.era)
        return HeartbeatResponse()

    served = Served(handler, eras=Eras((0, "old"), (3, "new")))
    for version in (0, 2, 3, 4):
        served.send(request_frame(BEAT, version))
    assert seen == ["old", "old", "new", "new"]


def test_lift_and_lower_know_the_version() -> None:
    def lift(request: HeartbeatRequest, version: int) -> HeartbeatRequest:
        request.generation_id += version
        return request

    def lower(response: HeartbeatResponse, version: int) -> HeartbeatResponse:
        response.error_code = version
        return response

    served = Served(alive, lift=lift, lower=lower)
    served.send(request_frame(BEAT, 2))
    assert served.requests[0].generation_id == 5
    assert served.answer(2)[1].error_code == 2


def test_a_refusal_is_told_in_the_words_of_the_api() -> None:
    def handler(*_: object) -> object:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    served = Served(handler)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert served.faults == []
    (refused,) = served.journal.about("g")
    assert (refused.kind, refused.facts["api"]) == ("refused", "Heartbeat")
    assert (refused.facts["error"], refused.facts["member_id"]) == ("UNKNOWN_MEMBER_ID", "m")


def test_a_fault_of_ours_is_reported_whole_and_told_as_such() -> None:
    def handler(*_: object) -> object:
        raise ZeroDivisionError

    served = Served(handler)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [type(fault) for fault in served.faults] == [ZeroDivisionError]
    assert [each.facts["error"] for each in served.journal.about("g")] == ["UNKNOWN_SERVER_ERROR"]


def test_a_violation_found_by_a_handler_ends_the_connection() -> None:
    def handler(*_: object) -> object:
        raise ProtocolViolation("acks=0 has no way to say it")

    served = Served(handler)
    with pytest.raises(ProtocolViolation, match="acks=0"):
        served.send(request_frame(BEAT, 4))
    assert served.out == []


def test_an_answer_that_cannot_be_encoded_ends_the_connection_and_is_reported() -> None:
    served = Served(lambda *_: HeartbeatResponse(error_code=cast("int", "text")))
    with pytest.raises(ProtocolViolation, match="fault"):
        served.send(request_frame(BEAT, 4))
    assert served.out == []
    assert len(served.faults) == 1


def test_no_answer_is_no_bytes() -> None:
    served = Served(lambda *_: None)
    assert served.send(request_frame(BEAT, 4)) == 0
    assert served.out == []


def test_an_answer_that_comes_later_is_owed() -> None:
    waiting: Waiting[HeartbeatResponse] = Waiting()
    served = Served(lambda *_: waiting)
    owed = served.send(request_frame(BEAT, 4, correlation_id=5))
    assert isinstance(owed, Owed)
    assert owed.waiting is waiting
    assert owed.finish(HeartbeatResponse(), served.out) == len(b"".join(served.out))
    assert served.answer(4)[0] == 5


def test_what_is_owed_may_turn_out_a_refusal() -> None:
    served = Served(lambda *_: Waiting())
    owed = served.send(request_frame(BEAT, 4))
    assert isinstance(owed, Owed)
    owed.finish(KafkaError(ErrorCode.NOT_COORDINATOR), served.out)
    assert served.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    assert [each.facts["error"] for each in served.journal.about("g")] == ["NOT_COORDINATOR"]


def test_answers_leave_no_trace_in_the_journal() -> None:
    served = Served(alive)
    served.send(request_frame(BEAT, 4))
    assert served.journal.latest() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\x0c\0\0\0\0\0\x01",
        header(999, 0),
        header(-1, 0),
        header(HEARTBEAT, 5),
        header(HEARTBEAT, -1),
        header(HEARTBEAT, 0),
        header(HEARTBEAT, 4, is_flexible=True) + b"\x02g",
        pack(">hhih", HEARTBEAT, 0, 1, 30_000) + b"short",
        header(HEARTBEAT, 4) + b"\x01\x05\x7fx",
        header(HEARTBEAT, 0) + pack(">h", 30_000) + b"g",
        header(HEARTBEAT, 0) + pack(">h", 1) + b"\xff" + pack(">ih", 1, 0),
        header(HEARTBEAT, 0) + pack(">h", -1) + pack(">ih", 1, 0),
    ],
)
def test_bytes_that_are_no_request_end_the_connection(content: bytes) -> None:
    served = Served(alive)
    with pytest.raises(ProtocolViolation) as violation:
        served.send(framed(content))
    assert "\n" not in violation.value.reason
    assert served.out == []
    assert served.requests == []


@pytest.mark.parametrize(
    ("length", "reason"), [(10, "group_instance_id at byte"), (20_000, "Heartbeat v4: ")]
)
def test_only_a_short_body_is_searched_for_its_fault(length: int, reason: str) -> None:
    """To walk megabytes field by field would keep every other client waiting for seconds."""
    long_beat = HeartbeatRequest(group_id="g" * length, generation_id=3, member_id="m")
    cut_short = framed(request_frame(long_beat, 4)[4:-2])
    with pytest.raises(ProtocolViolation, match=reason):
        Served(alive).send(cut_short)


def test_an_unknown_api_is_named_as_the_client_numbered_it() -> None:
    with pytest.raises(ProtocolViolation, match="unknown API key -1"):
        Served(alive).send(framed(header(-1, 0)))


def test_bytes_behind_a_body_are_passed_over() -> None:
    """As a real Kafka does: librdkafka 2.16 sends three bytes after some Metadata requests."""
    served = Served(alive)
    served.send(framed(request_frame(BEAT, 4)[4:] + b"\x01\x00\x00"))
    assert served.answer(4)[1].error_code == 0


def test_tagged_fields_of_a_header_are_passed_over() -> None:
    served = Served(alive)
    content = request_frame(BEAT, 4)[4:]
    head = header(HEARTBEAT, 4, is_flexible=True)
    assert content.startswith(head)
    served.send(framed(head[:-1] + b"\x01\x05\x02ab" + content[len(head) :]))
    assert served.requests == [BEAT]


def repeated(answers: list[HeartbeatResponse]) -> Served:
    script = iter(answers)
    return Served(lambda *_: next(script), is_repeated=True)


def test_a_repeated_request_is_decoded_once_and_handled_each_time() -> None:
    constant = HeartbeatResponse(throttle_time_ms=1)
    served = repeated([constant] * 3)
    for correlation_id in (1, 2, 3):
        served.send(request_frame(BEAT, 4, correlation_id=correlation_id))
        found_id, answer = served.answer(4)
        assert found_id == correlation_id
        assert answer.throttle_time_ms == 1
    first, second, third = served.requests
    assert first is second is third


def test_a_repeated_request_may_go_without_an_answer() -> None:
    served = repeated([cast("HeartbeatResponse", None)] * 2)
    for _ in range(2):
        assert served.send(request_frame(BEAT, 4)) == 0
        assert served.out == []


def test_a_repeated_request_is_lifted_once() -> None:
    def lift(request: HeartbeatRequest, version: int) -> HeartbeatRequest:
        request.generation_id += version
        return request

    served = Served(alive, is_repeated=True, lift=lift)
    for _ in range(3):
        served.send(request_frame(BEAT, 4))
    assert [request.generation_id for request in served.requests] == [7, 7, 7]


def test_a_fault_in_a_lift_is_a_fault_like_any_other() -> None:
    def lift(*_: object) -> HeartbeatRequest:
        raise ZeroDivisionError

    served = Served(alive, lift=lift)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [type(fault) for fault in served.faults] == [ZeroDivisionError]


def test_a_new_answer_to_a_repeated_request_is_the_one_that_is_told() -> None:
    served = repeated([HeartbeatResponse(error_code=code) for code in (1, 2, 3)])
    codes = []
    for _ in range(3):
        served.send(request_frame(BEAT, 4))
        codes.append(served.answer(4)[1].error_code)
    assert codes == [1, 2, 3]


@pytest.mark.parametrize(
    "other",
    [
        request_frame(HeartbeatRequest(group_id="g", generation_id=4, member_id="m"), 4),
        request_frame(BEAT, 3),
        request_frame(BEAT, 4, client_id=b"else"),
    ],
)
def test_a_request_that_differs_is_decoded_anew(other: bytes) -> None:
    served = repeated([HeartbeatResponse()] * 3)
    frame = request_frame(BEAT, 4)
    for each in (frame, other, frame):
        served.send(each)
    assert served.requests[0] is not served.requests[1]
    assert served.requests[1] is not served.requests[2]
    assert served.context.client_id == "test"
    assert served.context.api_version == 4


def future_client(version: int, content: bytes, *, is_flexible: bool) -> ApiVersionsResponse:
    asked: list[object] = []

    def refuse(request: object, code: ErrorCode, _: str | None) -> ApiVersionsResponse:
        asked.append(request)
        return ApiVersionsResponse(error_code=code)

    api = Api(key=API_VERSIONS, versions=Versions(0, 4), handler=alive, refuse=refuse)
    dispatcher = Dispatcher({api.key: api}.get, lambda *_: None)
    context = RequestContext(
        services=cast("Services", None), node_id=1, listener="A", client_host="/"
    )
    head = header(API_VERSIONS, version, correlation_id=8, is_flexible=is_flexible)
    buffer = bytearray(head + content)
    out: list[bytes | memoryview] = []
    dispatcher.dispatch(context, buffer, 0, len(buffer), out)
    (answer,) = split_frames(b"".join(out))
    correlation_id, response = read_answer(API_VERSIONS, 0, answer)
    assert correlation_id == 8
    assert asked == [None], "a body in a version unknown here cannot be read"
    return cast("ApiVersionsResponse", response)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_client_from_the_future_is_told_what_is_spoken_here(version: int) -> None:
    """KIP-511: in version 0, which every client can read."""
    answer = future_client(version, b"whatever it holds", is_flexible=True)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_negative_version_of_api_versions_is_answered_as_kafka_does() -> None:
    answer = future_client(-1, b"", is_flexible=False)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_known_versions_of_api_versions_go_to_its_handler() -> None:
    frame = request_frame(ApiVersionsRequest(), 0)
    api = Api(
        key=API_VERSIONS,
        versions=Versions(0, 4),
        handler=lambda *_: ApiVersionsResponse(),
        refuse=refuse,
    )
    out: list[bytes | memoryview] = []
    context = RequestContext(
        services=cast("Services", None), node_id=1, listener="A", client_host="/"
    )
    Dispatcher({api.key: api}.get, lambda *_: None).dispatch(
        context, bytearray(frame), 4, len(frame), out
    )
    (content,) = split_frames(b"".join(out))
    assert read_answer(API_VERSIONS, 0, content)[1] == ApiVersionsResponse()


class Gathered:
    """A dispatcher that serves a run; what was gathered is settled when it is told to."""

    def __init__(self, *refusals: KafkaError) -> None:
        self.refusals = list(refusals)
        self.steps: list[str] = []
        served = Served(self.handle, is_gathered=True)
        other = Api(key=API_VERSIONS, versions=Versions(0, 4), handler=self.other, refuse=refuse)
        served.dispatcher = Dispatcher(
            {HEARTBEAT: served.api, API_VERSIONS: other}.get,
            lambda _, fault: served.faults.append(fault),
        )
        cast("Any", served.context.services).groups = SimpleNamespace(gathering=self)
        served.context.run = Run()
        self.served = served

    def handle(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        way = "gather" if context.run is not None else "write"
        self.steps.append(f"{way} {request.generation_id}")
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    def other(self, *_: object) -> ApiVersionsResponse:
        self.steps.append("other")
        return ApiVersionsResponse(api_keys=[])

    def settle(self) -> None:
        self.steps.append("settle")
        if self.refusals:
            raise self.refusals.pop()

    def serve(self, *generations: int | None) -> list[int]:
        """Send heartbeats of these generations, None for another API; what they were told."""
        frames = [
            request_frame(ApiVersionsRequest(), 0)
            if each is None
            else request_frame(HeartbeatRequest(group_id="g", generation_id=each), 4)
            for each in generations
        ]
        buffer = bytearray(b"".join(frames))
        end = 0
        served = self.served
        for frame in frames:
            start, end = end + 4, end + len(frame)
            served.dispatcher.dispatch(served.context, buffer, start, end, served.out)
        served.dispatcher.settle(served.context, buffer, served.out)
        answers = split_frames(b"".join(served.out))
        served.out.clear()
        return [
            read_answer(HEARTBEAT, 4, answer)[1].throttle_time_ms
            for answer, each in zip(answers, generations, strict=True)
            if each is not None
        ]


def test_requests_of_one_run_are_settled_once_and_before_any_other() -> None:
    run = Gathered()
    assert run.serve(1, 2, None, 3) == [1, 2, 3]
    assert run.steps == ["gather 1", "gather 2", "settle", "other", "gather 3", "settle"]
    run.steps.clear()
    run.serve(None, None)
    assert run.steps == ["other", "other"]


def test_a_long_run_is_settled_on_the_way() -> None:
    run = Gathered()
    assert len(run.serve(*range(600))) == 600
    assert run.steps.count("settle") == 3


def test_a_run_that_cannot_be_settled_is_served_again_one_by_one() -> None:
    run = Gathered(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert run.serve(None, 1, 2, None) == [1, 2]
    assert run.steps == ["other", "gather 1", "gather 2", "settle", "write 1", "write 2", "other"]
    assert run.served.context.run is not None
    assert run.serve(3) == [3]
    assert run.steps[-2:] == ["gather 3", "settle"]
