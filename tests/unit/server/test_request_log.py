"""The log of requests: limits, long messages, records, secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.acl_operations import Entity
from kafkalite.server import request_log
from kafkalite.server.request_log import RequestLog
from kafkalite.storage.batch import build_key_value_batch
from tests.unit.exchanges import end, ended_exchange, pending_exchange

if TYPE_CHECKING:
    from kafkalite.gateway.exchanges import Exchange

NOT_COORDINATOR = 16


def beat(group: str, error_code: int = 0) -> Exchange:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return ended_exchange(request, 4, HeartbeatResponse(error_code=error_code))


def test_requests_are_numbered_in_the_order_in_which_they_end() -> None:
    log = RequestLog()
    waiting = pending_exchange(HeartbeatRequest(group_id="first"), 4)
    log.observe(waiting)
    waiting.wait()
    log.observe(beat("second"))
    assert [(each.number, each.names(Entity.GROUP)) for each in log.after(0)] == [(1, ("second",))]
    (pending,) = log.pending()
    assert (pending.number, pending.names(Entity.GROUP), pending.response) == (
        None, ("first",), None,
    )  # fmt: skip
    assert len(log) == 2
    end(waiting, HeartbeatResponse(error_code=NOT_COORDINATOR))
    log.observe(waiting)
    assert [each.number for each in log.after(0)] == [1, 2]
    (logged,) = log.after(1)
    assert logged.error_codes() == (NOT_COORDINATOR,)
    assert logged.response == {"throttleTimeMs": 0, "errorCode": NOT_COORDINATOR}
    assert log.pending() == []
    assert log.clear() == 2
    assert (log.last_number, log.after(0)) == (2, [])
    log.observe(beat("third"))
    assert [each.number for each in log.after(0)] == [3]


def test_the_oldest_requests_leave_a_full_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = RequestLog(limit=3)
    for number in range(5):
        log.observe(beat(f"g{number}"))
    assert [each.number for each in log.after(0)] == [3, 4, 5]
    assert [each.number for each in log.after(4)] == [5]
    exchange = beat("g4")
    size = exchange.request_bytes + exchange.answer_bytes
    monkeypatch.setattr(request_log, "MAX_LOGGED_BYTES", 2 * size)
    log.observe(exchange)
    assert [each.number for each in log.after(0)] == [5, 6]


def test_pending_requests_count_and_leave_a_full_log_last(monkeypatch: pytest.MonkeyPatch) -> None:
    log = RequestLog()
    pending = [pending_exchange(HeartbeatRequest(group_id=f"g{number}"), 4) for number in range(3)]
    for exchange in pending:
        log.observe(exchange)
    log.observe(beat("g3"))
    second = beat("g4")
    size = second.request_bytes + second.answer_bytes
    monkeypatch.setattr(request_log, "MAX_LOGGED_BYTES", 2 * size)
    log.observe(second)
    assert [each.number for each in log.after(0)] == [2]
    assert [each.names(Entity.GROUP) for each in log.pending()] == [("g2",)]
    pending[2].wait()
    log.observe(end(pending[2], HeartbeatResponse()))
    assert [each.number for each in log.after(0)] == [2, 3]
    assert log.pending() == []


@pytest.mark.parametrize("value", [b"w", bytes(40_000)], ids=["short", "long"])
def test_records_are_described(value: bytes) -> None:
    batch = build_key_value_batch([(b"k", b"v"), (b"k", value)], now_ms=5)
    partition = ProduceRequest.PartitionProduceData(index=3, records=batch)
    request = ProduceRequest(
        acks=-1,
        topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])],
    )
    log = RequestLog()
    end(pending_exchange(request, 9, log.observe), ProduceResponse())
    (logged,) = log.after(0)
    assert logged.names(Entity.TOPIC) == ("orders",)
    assert logged.request["topicData"][0]["partitionData"] == [
        {
            "index": 3,
            "recordsSizeInBytes": len(batch),
            "recordsBatches": [
                {
                    "baseOffset": 0, "recordCount": 2, "compression": "none",
                    "isTransactional": False, "isControl": False, "producerId": -1,
                    "producerEpoch": -1, "baseSequence": -1,
                }
            ],
        }
    ]  # fmt: skip


@pytest.mark.parametrize("records", [None, b"\x01", bytes(100)])
def test_records_that_are_no_batches_have_a_size(records: bytes | None) -> None:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])
    log = RequestLog()
    log.observe(ended_exchange(ProduceRequest(topic_data=[topic]), 9))
    (logged,) = log.after(0)
    assert logged.request["topicData"][0]["partitionData"] == [
        {"index": 0, "recordsSizeInBytes": len(records or b""), "recordsBatches": []}
    ]


def test_secrets_are_overwritten_in_a_copy() -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="ssl.key.password", value="secret")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name="t", configs=[config]
    )
    log = RequestLog()
    log.observe(ended_exchange(IncrementalAlterConfigsRequest(resources=[resource]), 1))
    (logged,) = log.after(0)
    (written,) = logged.request["resources"]
    assert written["configs"][0]["value"] == "******"
    (resource,) = logged.exchange.request.resources
    assert resource.configs[0].value == "secret"


def test_the_fields_of_a_message_with_too_many_are_omitted() -> None:
    topics = [
        MetadataRequest.MetadataRequestTopic(name=f"t{number:020}") for number in range(3_000)
    ]
    log = RequestLog()
    end(pending_exchange(MetadataRequest(topics=topics), 9, log.observe))
    topics[0].name = "t" * 20_000
    topics[1].name = "u" * 20_000
    end(pending_exchange(MetadataRequest(topics=topics[:10]), 9, log.observe))
    many, few = log.after(0)
    size = many.exchange.request_bytes
    assert many.request == {"omitted": f"more than 4096 fields in {size} bytes"}
    assert len(few.request["topics"]) == 10
    assert many.exchange.request is None


def test_each_request_is_a_change() -> None:
    log = RequestLog()
    numbers: list[int] = []
    log.watchers.watch(lambda: numbers.append(log.last_number))
    for _ in range(2):
        log.observe(beat("g"))
    assert numbers == [1, 2]
