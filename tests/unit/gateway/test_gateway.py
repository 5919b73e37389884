"""From frames to answers: the three kinds of errors, repeated requests, and later clients."""

from __future__ import annotations

from math import inf
from struct import pack
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.coordinator.group_commit import CommitWindow, PendingBatch
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.ports import turns
from kafkalite.ports.waiting import Waiting
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.versions import Versions
from kafkalite.wire.session import Deferred, PendingAnswer
from tests.unit.frames import framed, header, read_answer, request_frame, split_frames
from tests.unit.gateway.served import BEAT, HEARTBEAT, Served, alive, refuse

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.responder import Responder
    from kafkalite.gateway.steps import Handler
    from kafkalite.wire.session import Pieces, ServeResult

API_VERSIONS = 18


@pytest.mark.parametrize("version", range(5))
def test_a_request_reaches_its_handler_in_every_version(version: int) -> None:
    served = Served(alive)
    size = served.send(request_frame(BEAT, version, correlation_id=99))
    assert size == len(b"".join(served.out))
    correlation_id, answer = served.answer(version)
    assert correlation_id == 99
    assert answer.error_code == 0
    assert served.requests == [BEAT]
    assert served.context.client_id == "test"
    assert served.context.latest_call.api_version == version


@pytest.mark.parametrize(
    ("client_id", "name"), [(None, None), (b"", ""), (b"\xff", "\ufffd"), ("ü".encode(), "ü")]
)
def test_the_client_id_is_set(client_id: bytes | None, name: str) -> None:
    served = Served(alive)
    served.send(request_frame(BEAT, 0))
    served.send(request_frame(BEAT, 0, client_id=client_id))
    assert served.context.client_id == name


def test_the_era_of_a_version_is_looked_up() -> None:
    seen = []

    def handler(call: Call, _: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(call.era)
        return HeartbeatResponse()

    served = Served(handler, eras=Eras((0, "old"), (3, "new")))
    for version in (0, 2, 3, 4):
        served.send(request_frame(BEAT, version))
    assert seen == ["old", "old", "new", "new"]


def test_lift_and_lower_get_the_version() -> None:
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


def test_a_refusal_is_answered_in_the_fields_of_the_api() -> None:
    def handler(*_: object) -> object:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    served = Served(handler)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert served.faults == []
    (refused,) = served.history.about("g")
    assert (refused.kind, refused.facts["api"]) == ("refused", "Heartbeat")
    assert (refused.facts["error"], refused.facts["member_id"]) == ("UNKNOWN_MEMBER_ID", "m")


def test_a_bug_is_reported_and_answered_as_unknown_server_error() -> None:
    def handler(*_: object) -> object:
        raise ZeroDivisionError

    served = Served(handler)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [type(fault) for fault in served.faults] == [ZeroDivisionError]
    assert [each.facts["error"] for each in served.history.about("g")] == ["UNKNOWN_SERVER_ERROR"]


def test_a_violation_in_a_handler_closes_the_connection() -> None:
    def handler(*_: object) -> object:
        raise ProtocolViolation("acks=0 has no way to say it")

    served = Served(handler)
    with pytest.raises(ProtocolViolation, match="acks=0"):
        served.send(request_frame(BEAT, 4))
    assert served.out == []


def test_an_answer_that_cannot_be_encoded_closes_the_connection() -> None:
    served = Served(lambda *_: HeartbeatResponse(error_code=cast("int", "text")))
    with pytest.raises(ProtocolViolation, match="because of a bug"):
        served.send(request_frame(BEAT, 4))
    assert served.out == []
    assert len(served.faults) == 1


def test_missing_answer_adds_no_bytes() -> None:
    served = Served(lambda *_: None)
    assert served.send(request_frame(BEAT, 4)) == 0
    assert served.out == []


def test_a_later_answer_is_pending() -> None:
    waiting: Waiting[HeartbeatResponse] = Waiting()
    served = Served(lambda *_: waiting)
    pending = served.send(request_frame(BEAT, 4, correlation_id=5))
    assert isinstance(pending, PendingAnswer)
    assert pending.waiting is waiting
    assert pending.encode(HeartbeatResponse(), served.out) == len(b"".join(served.out))
    assert served.answer(4)[0] == 5


def test_a_pending_answer_may_be_a_refusal() -> None:
    served = Served(lambda *_: Waiting())
    pending = served.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    pending.encode(KafkaError(ErrorCode.NOT_COORDINATOR), served.out)
    assert served.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    assert [each.facts["error"] for each in served.history.about("g")] == ["NOT_COORDINATOR"]


def test_answers_are_not_recorded_in_the_history() -> None:
    served = Served(alive)
    served.send(request_frame(BEAT, 4))
    assert served.history.latest() == []


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
def test_malformed_requests_close_the_connection(content: bytes) -> None:
    served = Served(alive)
    with pytest.raises(ProtocolViolation) as violation:
        served.send(framed(content))
    assert "\n" not in violation.value.reason
    assert served.out == []
    assert served.requests == []


@pytest.mark.parametrize(
    ("length", "reason"), [(10, "group_instance_id at byte"), (20_000, "Heartbeat v4: ")]
)
def test_only_short_malformed_bodies_are_explained(length: int, reason: str) -> None:
    """Walking megabytes field by field would block all clients for seconds."""
    long_beat = HeartbeatRequest(group_id="g" * length, generation_id=3, member_id="m")
    cut_short = framed(request_frame(long_beat, 4)[4:-2])
    with pytest.raises(ProtocolViolation, match=reason):
        Served(alive).send(cut_short)


@pytest.mark.parametrize(
    ("key", "version", "message"),
    [
        (29, 0, r"DescribeAcls \(API key 29\) is not served: row 29$"),
        (12, 99, "Heartbeat v99 is not served: row 12$"),
        (-1, 0, "unknown API key -1 is not served$"),
    ],
)
def test_the_reason_why_an_api_is_not_served_is_reported(
    key: int, version: int, message: str
) -> None:
    served = Served(alive)
    served.gateway.reason_not_served = lambda key: f"row {key}" if key > 0 else ""
    with pytest.raises(ProtocolViolation, match=message):
        served.send(framed(header(key, version)))


def test_bytes_after_the_body_are_skipped() -> None:
    """As in Kafka: librdkafka 2.16 sends three bytes after some Metadata requests."""
    served = Served(alive)
    served.send(framed(request_frame(BEAT, 4)[4:] + b"\x01\x00\x00"))
    assert served.answer(4)[1].error_code == 0


def test_tagged_fields_of_a_header_are_skipped() -> None:
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


def test_a_repeated_request_may_have_no_answer() -> None:
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


def test_an_exception_in_a_lift_is_reported() -> None:
    def lift(*_: object) -> HeartbeatRequest:
        raise ZeroDivisionError

    served = Served(alive, lift=lift)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [type(fault) for fault in served.faults] == [ZeroDivisionError]


def test_a_new_answer_to_a_repeated_request_is_sent() -> None:
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
def test_a_different_request_is_decoded(other: bytes) -> None:
    served = repeated([HeartbeatResponse()] * 3)
    frame = request_frame(BEAT, 4)
    for each in (frame, other, frame):
        served.send(each)
    assert served.requests[0] is not served.requests[1]
    assert served.requests[1] is not served.requests[2]
    assert served.context.client_id == "test"
    assert served.context.latest_call.api_version == 4


def future_client(version: int, content: bytes, *, is_flexible: bool) -> ApiVersionsResponse:
    asked: list[object] = []

    def refuse(request: object, code: ErrorCode, _: str | None) -> ApiVersionsResponse:
        asked.append(request)
        return ApiVersionsResponse(error_code=code)

    api = Api(key=API_VERSIONS, versions=Versions(0, 4), handler=alive, refusal=refuse)
    gateway = Gateway({api.key: api}.get, lambda *_: None)
    context = ConnectionContext(node=cast("Node", None), listener="A", client_host="/")
    head = header(API_VERSIONS, version, correlation_id=8, is_flexible=is_flexible)
    buffer = bytearray(head + content)
    out: list[bytes | memoryview] = []
    gateway.serve_in_worker(context, buffer, 0, len(buffer), out)
    (answer,) = split_frames(b"".join(out))
    correlation_id, response = read_answer(API_VERSIONS, 0, answer)
    assert correlation_id == 8
    assert asked == [None], "a body in a version unknown here cannot be read"
    return cast("ApiVersionsResponse", response)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_later_client_gets_the_served_versions(version: int) -> None:
    """KIP-511: in version 0, which every client can parse."""
    answer = future_client(version, b"unknown format", is_flexible=True)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_negative_version_of_api_versions_is_answered_as_kafka_does() -> None:
    answer = future_client(-1, b"", is_flexible=False)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_known_versions_of_api_versions_reach_its_handler() -> None:
    frame = request_frame(ApiVersionsRequest(), 0)
    api = Api(
        key=API_VERSIONS,
        versions=Versions(0, 4),
        handler=lambda *_: ApiVersionsResponse(),
        refusal=refuse,
    )
    out: list[bytes | memoryview] = []
    context = ConnectionContext(node=cast("Node", None), listener="A", client_host="/")
    Gateway({api.key: api}.get, lambda *_: None).serve_in_worker(
        context, bytearray(frame), 4, len(frame), out
    )
    (content,) = split_frames(b"".join(out))
    assert read_answer(API_VERSIONS, 0, content)[1] == ApiVersionsResponse()


class Shard:
    """Joins the writes of requests, and refuses batches on demand."""

    def __init__(self, window: CommitWindow) -> None:
        self.window = window
        self.batch: PendingBatch | None = None
        self.refusals: list[Exception | None] = []
        self.fault: Exception | None = None
        self.steps: list[str] = []

    def write(self) -> None:
        if self.window.is_open:
            if self.batch is None:
                self.batch = PendingBatch(1_000)
                self.window.add(self)
            self.window.joined_batch = self.batch

    def flush(self) -> None:
        self.steps.append("flush")
        if self.fault is not None:
            fault, self.fault, self.batch = self.fault, None, None
            raise fault
        assert self.batch is not None
        if self.refusals:
            self.batch.error = self.refusals.pop(0)
        self.batch = None


class Batching:
    """A gateway whose heartbeats are batched; those of generation 0 write nothing."""

    def __init__(self) -> None:
        self.window = CommitWindow()
        self.shard = Shard(self.window)
        self.steps = self.shard.steps
        served = Served(self.handle, is_batched=True)
        other = Api(key=API_VERSIONS, versions=Versions(0, 4), handler=self.other, refusal=refuse)
        served.gateway = Gateway(
            {HEARTBEAT: served.api, API_VERSIONS: other}.get,
            lambda _, fault: served.faults.append(fault),
            self.window,
        )
        self.served = served
        self.sizes: list[ServeResult] = []

    def handle(self, _: Call, request: HeartbeatRequest) -> HeartbeatResponse:
        generation = request.generation_id
        self.steps.append(f"{generation}")
        if generation < 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if generation:
            self.shard.write()
        return HeartbeatResponse(throttle_time_ms=generation)

    def other(self, *_: object) -> ApiVersionsResponse:
        assert not self.window.is_open
        self.steps.append("other")
        return ApiVersionsResponse(api_keys=[])

    def serve(self, *generations: int | None) -> list[int | ErrorCode]:
        """Send heartbeats with these generations, None for another API; return their answers."""
        frames = [
            request_frame(ApiVersionsRequest(), 0)
            if each is None
            else request_frame(HeartbeatRequest(group_id="g", generation_id=each), 4)
            for each in generations
        ]
        buffer = bytearray(b"".join(frames))
        end = 0
        served = self.served
        self.sizes.clear()
        for frame in frames:
            start, end = end + 4, end + len(frame)
            size = served.gateway.serve_in_worker(served.context, buffer, start, end, served.out)
            self.sizes.append(size)
        self.sizes.append(served.gateway.flush(served.out))
        data = b"".join(served.out)
        served.out.clear()
        assert sum(size for size in self.sizes if isinstance(size, int)) == len(data)
        answers = [
            read_answer(HEARTBEAT, 4, answer)[1]
            for answer, each in zip(split_frames(data), generations, strict=True)
            if each is not None
        ]
        return [ErrorCode(each.error_code) or each.throttle_time_ms for each in answers]


def test_batched_requests_are_written_together_before_any_other() -> None:
    batching = Batching()
    assert batching.serve(1, 2, None, 3) == [1, 2, 3]
    assert batching.steps == ["1", "2", "flush", "other", "3", "flush"]
    assert isinstance(batching.sizes[0], Deferred)
    batching.steps.clear()
    batching.serve(None, None)
    assert batching.steps == ["other", "other"]


def test_an_answer_without_a_batch_waits_only_behind_one_with_a_batch() -> None:
    batching = Batching()
    assert batching.serve(0, 1, 0, -1) == [0, 1, 0, ErrorCode.ILLEGAL_GENERATION]
    assert isinstance(batching.sizes[0], int)
    assert all(isinstance(size, Deferred) for size in batching.sizes[1:-1])
    assert batching.steps == ["0", "1", "0", "-1", "flush"]


def test_the_number_of_deferred_answers_is_limited() -> None:
    batching = Batching()
    assert len(batching.serve(*range(1, 601))) == 600
    assert batching.steps.count("flush") == 3


def test_requests_of_a_refused_batch_get_its_error() -> None:
    batching = Batching()
    batching.shard.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR), None]
    refused = ErrorCode.NOT_COORDINATOR
    answers = batching.serve(1, 0, 2, -1, None, 3)
    assert answers == [refused, 0, refused, ErrorCode.ILLEGAL_GENERATION, 3]
    assert [event.facts["error"] for event in batching.served.history.about("g")] == [
        "NOT_COORDINATOR",
        "NOT_COORDINATOR",
        "ILLEGAL_GENERATION",
    ]


def test_an_exception_in_a_batch_is_reported() -> None:
    batching = Batching()
    fault = RuntimeError("our own")
    batching.shard.refusals = [fault, None]
    assert batching.serve(1, 0, None, 3) == [ErrorCode.UNKNOWN_SERVER_ERROR, 0, 3]
    assert batching.served.faults == [fault]


def test_answers_of_a_failed_batch_never_reach_another_client() -> None:
    batching = Batching()
    batching.shard.fault = RuntimeError("our own")
    with pytest.raises(RuntimeError):
        batching.serve(1, 2)
    batching.served.out.clear()
    assert batching.serve(3) == [3]


def test_without_a_window_nothing_is_deferred() -> None:
    batching = Batching()
    batching.served.gateway = Gateway({HEARTBEAT: batching.served.api}.get, lambda *_: None)
    assert batching.serve(1, 2) == [1, 2]
    assert all(isinstance(size, int) for size in batching.sizes)


def test_a_step_prevents_batching() -> None:
    class Doubled:
        def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
            del api, version

            def handle(call: Call, request: HeartbeatRequest) -> object:
                assert not batching.window.is_open
                return handler(call, request)

            return handle

    batching = Batching()
    batching.serve(1)
    step = Doubled()
    batching.served.gateway.install(step)
    batching.steps.clear()
    assert batching.serve(1, 2) == [1, 2]
    assert batching.steps == ["1", "2"]
    batching.served.gateway.remove(step)
    batching.serve(1, 2)
    assert batching.steps[-1] == "flush"


def test_other_clients_may_be_served_while_refusals_are_built() -> None:
    """No batch is pending then."""
    batching = Batching()

    def refuse_in_steps(*_: object) -> HeartbeatResponse:
        assert not batching.window.is_open
        turns.pause()
        return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)

    batching.served.api = batching.served.api._replace(refusal=refuse_in_steps)
    batching.served.gateway = Gateway(
        {HEARTBEAT: batching.served.api}.get, lambda *_: None, batching.window
    )
    batching.shard.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR), None]
    frame = request_frame(HeartbeatRequest(group_id="g", generation_id=1), 4)
    worker = Worker()
    batching.served.send(frame)
    worker.task = lambda: sizes.append(batching.served.gateway.flush(batching.served.out))
    sizes: list[int] = []
    assert worker.take_turn(0.0) is worker
    other: Pieces = []
    batching.served.gateway.serve_in_worker(
        batching.served.context, bytearray(frame), 4, len(frame), other
    )
    batching.served.gateway.flush(other)
    (answer,) = split_frames(b"".join(other))
    assert read_answer(HEARTBEAT, 4, answer)[1].throttle_time_ms == 1
    assert worker.take_turn(inf) is None
    assert batching.served.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    assert len(sizes) == 1


def test_a_long_request_that_paused_is_answered() -> None:
    def pausing_handler(*_: object) -> HeartbeatResponse:
        turns.pause()
        return HeartbeatResponse(throttle_time_ms=7)

    served = Served(pausing_handler)
    frame = request_frame(HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000), 0)
    outcome: list[ServeResult] = []
    worker = Worker()
    worker.task = lambda: outcome.append(served.send(frame))
    admittance = worker.take_turn(0.0)
    assert isinstance(admittance, turns.MemoryRequest)
    assert admittance.size_bytes == len(frame) - 4
    assert worker.take_turn(0.0) is worker
    assert worker.take_turn(inf) is None
    assert not served.faults
    assert outcome
    assert served.out


def test_errors_of_a_long_request_do_not_refer_to_its_frames() -> None:
    errors: list[KafkaError] = []

    def failing_handler(*_: object) -> HeartbeatResponse:
        error = KafkaError(ErrorCode.NOT_COORDINATOR)
        errors.append(error)
        raise error

    served = Served(failing_handler)
    frame = request_frame(HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000), 0)
    worker = Worker()
    outcome: list[ServeResult] = []
    worker.task = lambda: outcome.append(served.send(frame))
    assert isinstance(worker.take_turn(inf), turns.MemoryRequest)
    assert worker.take_turn(inf) is None
    (error,) = errors
    assert (error.__traceback__, error.__context__) == (None, None)
    worker.end()


def test_a_request_of_an_authentication_is_served_before_a_responder() -> None:
    served = Served(alive)
    served.gateway.install_responder(cast("Responder", object()))
    content = request_frame(BEAT, 4)
    buffer, out = bytearray(content), served.out
    served.gateway.serve_authentication(served.context, buffer, 4, len(buffer), out)
    assert served.answer(4)[1].error_code == 0
    assert served.requests == [BEAT]


def test_an_answer_of_an_authentication_may_be_pending() -> None:
    waiting: Waiting[HeartbeatResponse] = Waiting()
    served = Served(lambda *_: waiting)
    buffer = bytearray(request_frame(BEAT, 4))
    pending = served.gateway.serve_authentication(
        served.context, buffer, 4, len(buffer), served.out
    )
    assert isinstance(pending, PendingAnswer)
    waiting.resolve(HeartbeatResponse())
    pending.encode(waiting.value, served.out)
    assert served.answer(4)[1].error_code == 0


@pytest.mark.parametrize("version", [0, 4])
def test_a_request_is_refused_without_its_handler(version: int) -> None:
    served = Served(alive)
    buffer = bytearray(request_frame(BEAT, version))
    error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    size = served.gateway.refuse(served.context, buffer, 4, len(buffer), served.out, error)
    assert size == len(b"".join(served.out))
    assert served.answer(version)[1].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert served.requests == []
    buffer = bytearray(request_frame(BEAT, 4)[:-3])
    with pytest.raises(ProtocolViolation):
        served.gateway.refuse(served.context, buffer, 4, len(buffer), [], error)
