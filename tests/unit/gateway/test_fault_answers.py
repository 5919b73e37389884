"""Answers that faults change: their bytes, the checksums of their records, and throttle times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.gateway.api import Api
from kafkalite.gateway.fault_answers import alter_bytes, corrupt_records, may_change_answer
from kafkalite.gateway.fault_rules import MAX_DELAY_MS, Action, AlteredBytes, FaultError
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import build_batch, split_batches
from kafkalite.storage.record_format import NewRecord
from kafkalite.wire.session import PendingAnswer
from tests.unit.frames import request_frame
from tests.unit.gateway.served import BEAT, alive
from tests.unit.gateway.test_faults import ServedWithFaults

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call

FRAME = b"\0\0\0\x0c" + b"\0\0\0\x01" + b"\0" + b"\0\0\0\x07" + b"\0\0" + b"\0"
"""The answer to BEAT: length, correlation id, tags, throttle time, error, tags."""

INVERTED = FRAME[:8] + bytes(byte ^ 0xFF for byte in FRAME[8:])


def answered(faulty: ServedWithFaults, **action: object) -> tuple[bytes, list[int]]:
    """Return the bytes of the answer to a heartbeat, and the times for which it mutes."""
    muted: list[int] = []
    faulty.context.connection = cast("Any", SimpleNamespace(mute=muted.append))
    faulty.add(**action)
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    pending.encode(pending.waiting.value, faulty.out)
    return b"".join(faulty.out), muted


@pytest.mark.parametrize(
    ("answer", "sent", "muted"),
    [
        ("partial", FRAME[: len(FRAME) // 2], [MAX_DELAY_MS]),
        ("corrupted", INVERTED, []),
        ("reordered", FRAME[:8] + FRAME[12:] + FRAME[8:12], []),
    ],
)
def test_the_bytes_of_an_answer_are_altered(answer: str, sent: bytes, muted: list[int]) -> None:
    faulty = ServedWithFaults()
    assert answered(faulty, answer=answer) == (sent, muted)
    assert faulty.requests == [BEAT]
    (entry,) = faulty.history.about("g")
    assert entry.text == f"fault f1 altered the answer to Heartbeat ({answer})"


def test_the_connection_is_closed_after_a_truncated_answer() -> None:
    faulty = ServedWithFaults()
    with pytest.raises(DisconnectError, match="fault f1 altered the answer"):
        answered(faulty, answer="truncated")
    assert b"".join(faulty.out) == FRAME[: len(FRAME) // 2]


def test_the_bytes_of_a_refusal_and_of_a_later_answer_are_altered() -> None:
    def refuse(_: object, __: object) -> HeartbeatResponse:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    refused, _ = answered(ServedWithFaults(refuse), answer="corrupted")
    assert refused[13:15] == bytes(byte ^ 0xFF for byte in (0, ErrorCode.NOT_COORDINATOR))
    answers: list[Waiting[HeartbeatResponse]] = []

    def wait(_: object, __: object) -> Waiting[HeartbeatResponse]:
        answers.append(Waiting())
        return answers[-1]

    faulty = ServedWithFaults(wait)
    faulty.add(answer="corrupted")
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    answers[0].resolve(HeartbeatResponse(throttle_time_ms=7))
    pending.encode(pending.waiting.value, faulty.out)
    assert b"".join(faulty.out) == INVERTED


def test_another_node_loses_its_connection_instead_of_an_altered_answer() -> None:
    call = cast("Call", SimpleNamespace(sender=object(), connection=None))
    with pytest.raises(DisconnectError, match="why"):
        alter_bytes(AlteredBytes.CORRUPTED, lambda *_: HeartbeatResponse(), call, BEAT, "why")


def test_no_answer_is_not_altered() -> None:
    call = cast("Call", SimpleNamespace(sender=None, connection=None))
    arrived = alter_bytes(AlteredBytes.CORRUPTED, lambda *_: None, call, BEAT, "why")
    assert arrived.value is None


def test_a_throttled_answer_mutes_its_connection() -> None:
    faulty = ServedWithFaults()
    frame, muted = answered(faulty, throttle="2s")
    assert (int.from_bytes(frame[9:13], "big"), muted) == (2000, [2000])

    def refuse(_: object, __: object) -> HeartbeatResponse:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def refuse_row(_: object, code: ErrorCode, __: object) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=code)

    frame, muted = answered(ServedWithFaults(refuse, refusal=refuse_row), throttle_ms=3)
    assert frame[9:15] == b"\0\0\0\x03" + ErrorCode.NOT_COORDINATOR.to_bytes(2)
    assert muted == [3]


def test_an_exception_of_a_handler_is_not_altered() -> None:
    def fail(_: object, __: object) -> None:
        raise LookupError

    for action in ({"answer": "corrupted"}, {"throttle_ms": 5}):
        faulty = ServedWithFaults(fail)
        faulty.add(**action)
        faulty.send(request_frame(BEAT, 4))
        assert faulty.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("key", "action", "is_possible"),
    [
        (ApiKey.HEARTBEAT, Action(throttle_ms=1), True),
        (ApiKey.SASL_HANDSHAKE, Action(throttle_ms=1), False),
        (ApiKey.HEARTBEAT, Action(answer=AlteredBytes.CORRUPTED), True),
        (ApiKey.HEARTBEAT, Action(answer=AlteredBytes.CORRUPTED_RECORDS), False),
        (ApiKey.FETCH, Action(answer=AlteredBytes.CORRUPTED_RECORDS), True),
        (ApiKey.SHARE_FETCH, Action(answer=AlteredBytes.CORRUPTED_RECORDS), True),
    ],
)
def test_an_answer_needs_what_a_fault_changes(
    key: ApiKey, action: Action, *, is_possible: bool
) -> None:
    assert may_change_answer(action, key) is is_possible


def test_a_fault_for_answers_without_the_field_is_refused() -> None:
    faulty = ServedWithFaults()
    with pytest.raises(FaultError, match="answer: the response of Heartbeat has no field for a re"):
        faulty.add(match={"api": "Heartbeat"}, answer="corrupted_records")
    faulty.add(answer="corrupted_records")  # for the APIs that have records
    faulty.send(request_frame(BEAT, 4))
    assert faulty.answer(4)[1].error_code == ErrorCode.NONE
    assert faulty.injected.state("f1").matches == 0


def fetched() -> FetchResponse:
    records = b"".join(
        build_batch([NewRecord(None, b"apples", 0)], base_offset=offset) for offset in (0, 1)
    )
    partitions = [
        FetchResponse.PartitionData(partition_index=index, records=content)
        for index, content in enumerate((records + records[:70], b"", records))
    ]
    topic = FetchResponse.FetchableTopicResponse(topic_id=b"o" * 16, partitions=partitions)
    return FetchResponse(responses=[topic])


def test_the_records_of_selected_partitions_have_wrong_checksums() -> None:
    original = fetched()
    response = corrupt_records(
        ApiKey.FETCH, original, lambda topic, index: (topic, index) == (b"o" * 16, 0)
    )
    corrupted, _, other = response.responses[0].partitions
    assert original == fetched()
    assert [each.has_valid_crc() for each in split_batches(corrupted.records[:-70])] == [False] * 2
    assert len(corrupted.records) == len(original.responses[0].partitions[0].records or b"")
    assert all(each.has_valid_crc() for each in split_batches(other.records))


def test_an_answer_without_selected_records_is_not_changed() -> None:
    response = fetched()
    assert corrupt_records(ApiKey.FETCH, response, lambda _, index: index == 1) is response


def test_a_fault_that_corrupts_records_does_not_fire_for_an_answer_without_records() -> None:
    faulty = ServedWithFaults(alive)
    handler = _fetch_handler(faulty, [FetchResponse(), fetched()])
    assert not handler().responses
    assert faulty.injected.state("f1").firings == 0
    assert not split_batches(handler().responses[0].partitions[2].records)[0].has_valid_crc()
    assert faulty.injected.state("f1").firings == 1


def _fetch_handler(faulty: ServedWithFaults, answers: list[FetchResponse]) -> Any:  # noqa: ANN401
    """Return a function that fetches, with a fault that corrupts records."""
    faulty.add(answer="corrupted_records")
    step = faulty.injected.step
    assert step is not None
    api = Api(ApiKey.FETCH, Versions(4, 18), lambda *_: answers.pop(0))
    handler = step.wrap(api, 18, api.handler)
    return lambda: handler(faulty.context.call(18, None, 0), FetchRequest())
