"""Delays of a real Kafka after its answers: topics become visible, and transactions complete.

`python -m tests.perf.kafka_pace DIRECTORY [COUNT]` starts a Kafka with its data in DIRECTORY and
the JVM options of its start script, and prints COUNT samples of each delay as 21 quantiles in
milliseconds: minimum, 5 %, 10 %, …, 95 %, maximum.

A run with 300 samples (Kafka 4.4.0, Java 17, 2 cores of an AMD EPYC with a load of about 3):

| Delay in ms | Min | 5 % | 25 % | 50 % | 75 % | 95 % | Max |
| --- | --- | --- | --- | --- | --- | --- | --- |
| auto_creation | 24.18 | 28.47 | 30.19 | 32.31 | 35.23 | 41.25 | 74.05 |
| creation | 0.38 | 0.43 | 0.52 | 0.77 | 1.98 | 7.46 | 71.31 |
| completion_after_end_txn_v3 | 0.37 | 0.54 | 2.03 | 2.91 | 5.25 | 12.51 | 61.38 |
| completion_after_end_txn_v5 | 0.41 | 1.28 | 1.70 | 2.01 | 3.11 | 7.38 | 42.05 |

A delay includes the time of its last request.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.raw import RawClient
from tests.oracle.real_kafka import PRODUCTION_FLAGS, RealKafka

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT: Final = 1000
_WARM_UP_COUNT: Final = 100
_STEPS: Final = 20
"""Number of intervals between the quantiles."""
_TOPIC: Final = "transactions"
_TIMEOUT_MS: Final = 60_000


def _poll(is_done: Callable[[], bool]) -> float:
    """Return the time until `is_done`, in milliseconds; each call is a request."""
    started = time.perf_counter()
    while not is_done():
        pass
    return (time.perf_counter() - started) * 1000


def _is_visible(client: RawClient, name: str, *, creates: bool) -> bool:
    topic = MetadataRequest.MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=creates)
    (found,) = client.call(request, 9).topics
    return not found.error_code and all(not row.error_code for row in found.partitions)


def auto_creation_ms(client: RawClient, name: str) -> float:
    """Return the time from a Metadata request that creates a topic until an answer has it."""
    return _poll(lambda: _is_visible(client, name, creates=True))


def creation_ms(client: RawClient, name: str) -> float:
    """Return the time from the answer of CreateTopics until Metadata has the topic."""
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    assert client.call(request, 5).topics[0].error_code == 0
    return _poll(lambda: _is_visible(client, name, creates=False))


class Producer:
    """A transactional producer whose transactions have one partition and no records."""

    def __init__(self, client: RawClient, name: str) -> None:
        self._client = client
        self._name = name
        find = FindCoordinatorRequest(key=name, key_type=1)
        _poll(lambda: client.call(find, 3).error_code == 0)
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_TIMEOUT_MS)
        while (answer := client.call(init, 4)).error_code:
            pass
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def _add_partition(self) -> ErrorCode:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=_TOPIC, partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )
        (result,) = self._client.call(request, 3).results_by_topic_v3_and_below
        (row,) = result.results_by_partition
        return ErrorCode(row.partition_error_code)

    def completion_ms(self, version: int, _number: int) -> float:
        """Return the time from the answer of EndTxn until the next transaction may begin."""
        if error := self._add_partition():
            assert error is ErrorCode.CONCURRENT_TRANSACTIONS, error
            _poll(lambda: not self._add_partition())
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=True,
        )
        answer = self._client.call(request, version)
        assert not answer.error_code, answer
        if version >= 5:  # KIP-890: each end increases the epoch
            self._id, self._epoch = answer.producer_id, answer.producer_epoch
        return _poll(lambda: not self._add_partition())


def _quantiles(measure: Callable[[int], float], count: int) -> list[float]:
    for number in range(-_WARM_UP_COUNT, 0):
        measure(number)
    samples = sorted(measure(number) for number in range(count))
    inner = statistics.quantiles(samples, n=_STEPS, method="inclusive")
    return [round(value, 2) for value in (samples[0], *inner, samples[-1])]


def main(directory: Path, count: int) -> None:
    """Measure all delays of one Kafka, and print them."""
    kafka = RealKafka(
        directory,
        {
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        },
        heap="1g",
        flags=PRODUCTION_FLAGS,
        defaults={},
    )
    kafka.start()
    try:
        client = RawClient(kafka.port)
        creation_ms(client, _TOPIC)
        delays: dict[str, Callable[[int], float]] = {
            "auto_creation": lambda number: auto_creation_ms(client, f"auto.{number}"),
            "creation": lambda number: creation_ms(client, f"created.{number}"),
        }
        for version in (3, 5):
            producer = Producer(client, f"producer.{version}")
            name = f"completion_after_end_txn_v{version}"
            delays[name] = partial(producer.completion_ms, version)
        for name, measure in delays.items():
            line = json.dumps({name: _quantiles(measure, count)})
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    finally:
        kafka.kill()


if __name__ == "__main__":
    _directory, *_rest = sys.argv[1:]
    main(Path(_directory), int(_rest[0]) if _rest else _COUNT)
