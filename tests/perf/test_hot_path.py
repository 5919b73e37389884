"""The number of function calls per request without a transaction, of the log, and of faults.

CPU time depends on the load of the machine; the number of Python function calls does not.
Transactions must add no calls, so the limits are slightly above the numbers without them.
"""

from __future__ import annotations

import cProfile
import pstats
from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.metadata.internal_topics import transaction_state_topic
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.server.request_log import RequestLog
from tests.conformance.batches import batch
from tests.perf.pipeline import frame
from tests.perf.socketless_broker import SocketlessBroker
from tests.perf.transactions import NEW, PARTITIONS, TOPIC, Identity, encode_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_TOPIC = "plain"
_WARM_UP_COUNT, _MEASURED_COUNT = 50, 200


def produce(number: int) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"%d" % number))
    topic = ProduceRequest.TopicProduceData(name=_TOPIC, partition_data=[data])
    return frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)


def fetch(number: int) -> bytes:
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=number, partition_max_bytes=100
    )
    topic = FetchRequest.FetchTopic(topic=_TOPIC, partitions=[partition])
    request = FetchRequest(
        replica_id=-1, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=[topic]
    )
    return frame(request, 12)


def commit(number: int) -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=number
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=_TOPIC, partitions=[partition])
    return frame(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]), 8
    )


def calls_per_request(broker: SocketlessBroker, make: Callable[[int], bytes]) -> float:
    """Return the number of calls of a request after many others."""
    frames = [make(number) for number in range(_WARM_UP_COUNT + _MEASURED_COUNT)]
    for request in frames[:_WARM_UP_COUNT]:
        broker.serve(request)
    profile = cProfile.Profile()
    profile.enable()
    for request in frames[_WARM_UP_COUNT:]:
        broker.serve(request)
    profile.disable()
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls / _MEASURED_COUNT


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SocketlessBroker]:
    broker = SocketlessBroker(str(tmp_path))
    topic = CreateTopicsRequest.CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1)
    broker.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    for number in range(_WARM_UP_COUNT + _MEASURED_COUNT):
        broker.serve(produce(number))
    yield broker
    broker.close()


@pytest.mark.parametrize(("make", "budget"), [(produce, 111), (fetch, 132), (commit, 159)])
def test_a_plain_request_stays_within_its_number_of_calls(
    make: Callable[[int], bytes], budget: int, broker: SocketlessBroker
) -> None:
    assert calls_per_request(broker, make) < budget


def test_a_transaction_stays_within_its_number_of_calls(broker: SocketlessBroker) -> None:
    config = broker.cluster.config
    broker.cluster.metadata.create_topics([transaction_state_topic(config)])
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1
    )
    broker.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    producer = broker.call(request, 4)
    identity = Identity("t", producer.producer_id, producer.producer_epoch)

    plan = [
        encoded.data
        for number in range(_WARM_UP_COUNT)
        for step in encode_transaction(NEW, identity, number)
        for encoded in step
    ]
    half = len(plan) // 2
    for encoded in plan[:half]:
        broker.serve(encoded)
    profile = cProfile.Profile()
    profile.runcall(lambda: [broker.serve(encoded) for encoded in plan[half:]])
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    assert calls / (_WARM_UP_COUNT // 2) < 1_420


def test_the_log_of_requests_adds_few_calls(broker: SocketlessBroker) -> None:
    plain = calls_per_request(broker, commit)
    log = RequestLog(_WARM_UP_COUNT)
    broker.subscribe(log.observe)
    assert calls_per_request(broker, commit) < plain + 23
    assert log.last_number == _WARM_UP_COUNT + _MEASURED_COUNT


@pytest.mark.parametrize(
    "match",
    [
        {"api": "Produce"},
        {"group": "other"},
        {"client_id": "other"},
        {"topic": "other"},
        {"topic": _TOPIC, "partition": 1},
    ],
    ids=str,
)
def test_a_fault_that_selects_nothing_adds_hardly_any_calls(
    match: dict[str, object], broker: SocketlessBroker
) -> None:
    plain = calls_per_request(broker, commit)
    broker.faults().add(parse_rule({"match": match, "action": {"hold": True}}))
    assert calls_per_request(broker, commit) <= plain + 7
