"""Delays of a real Kafka after its answers: topics become visible, and transactions complete.

`python -m tests.perf.kafka_pace DIRECTORY [COUNT] [STARTS]` starts a Kafka with its data in
DIRECTORY and the JVM options of its start script, and prints COUNT samples of each delay as 21
quantiles in milliseconds: minimum, 5 %, 10 %, …, 95 %, maximum. The first use of coordinators is
measured once for each of STARTS starts of a new Kafka.

A run with 300 samples (Kafka 4.4.0, Java 17, 2 cores of an AMD EPYC with a load of about 3):

| Delay in ms | Min | 5 % | 25 % | 50 % | 75 % | 95 % | Max |
| --- | --- | --- | --- | --- | --- | --- | --- |
| auto_creation | 24.18 | 28.47 | 30.19 | 32.31 | 35.23 | 41.25 | 74.05 |
| creation | 0.38 | 0.43 | 0.52 | 0.77 | 1.98 | 7.46 | 71.31 |
| completion_after_end_txn_v3 | 0.37 | 0.54 | 2.03 | 2.91 | 5.25 | 12.51 | 61.38 |
| completion_after_end_txn_v5 | 0.41 | 1.28 | 1.70 | 2.01 | 3.11 | 7.38 | 42.05 |

Another run, with 300 samples and 20 starts, and a load of about 7 of processes with less priority:

| Delay in ms | Min | 5 % | 25 % | 50 % | 75 % | 95 % | Max |
| --- | --- | --- | --- | --- | --- | --- | --- |
| tls_answer | 2.70 | 3.63 | 5.86 | 8.71 | 11.05 | 16.69 | 29.55 |
| tls_plain_text_answer | 0.22 | 0.34 | 0.49 | 0.65 | 1.36 | 5.44 | 9.30 |
| group_found | 147.37 | 173.48 | 234.67 | 275.29 | 354.57 | 565.49 | 575.84 |
| group_ready_after | 462.25 | 671.54 | 1078.68 | 1304.02 | 1374.28 | 1797.76 | 2377.10 |
| transaction_found | 40.18 | 48.34 | 59.54 | 67.64 | 77.97 | 100.51 | 140.33 |
| transaction_ready_after | 532.10 | 596.70 | 852.00 | 1078.26 | 1391.83 | 1588.94 | 1765.86 |

A delay includes the time of its last request.
"""

from __future__ import annotations

import json
import socket
import ssl
import statistics
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.raw import RawClient
from tests.conformance.tls_listeners import Certificates
from tests.oracle.real_kafka import PRODUCTION_FLAGS, RealKafka
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_COUNT: Final = 1000
_STARTS: Final = 20
_COORDINATORS: Final = {"group": 0, "transaction": 1}
"""Name of a kind of coordinators → its number in FindCoordinator."""
_WARM_UP_COUNT: Final = 100
_CONFIG: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
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


class TlsClient:
    """Clients of a listener with TLS, which end when the broker has answered their first bytes."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context

    def answer_ms(self, _number: int) -> float:
        """Return the time from the first message of a handshake until the broker's answer."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        try:
            handshake.do_handshake()
        except ssl.SSLWantReadError:
            return self._exchange_ms(outgoing.read())
        raise AssertionError("the handshake has ended without an answer")

    def plain_text_ms(self, _number: int) -> float:
        """Return the time from a request without TLS until the alert."""
        return self._exchange_ms(bytes([0, 0, 0, 10]) + bytes(10))

    def _exchange_ms(self, sent: bytes) -> float:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            started = time.perf_counter()
            connection.sendall(sent)
            assert connection.recv(1)
            return (time.perf_counter() - started) * 1000


def first_use_ms(client: RawClient, kind: int) -> tuple[float, float]:
    """Return when FindCoordinator succeeds first, and how much later the coordinator is ready."""
    find = FindCoordinatorRequest(key="first", key_type=kind)
    found_ms = _poll(lambda: client.call(find, 3).error_code == 0)
    init = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=_TIMEOUT_MS)
    fetch = OffsetFetchRequest(group_id="first", topics=None)
    request, version = (init, 4) if kind else (fetch, 5)
    return found_ms, _poll(lambda: client.call(request, version).error_code == 0)


def _quantiles(measure: Callable[[int], float], count: int) -> list[float]:
    for number in range(-_WARM_UP_COUNT, 0):
        measure(number)
    return _quantiles_of([measure(number) for number in range(count)])


def _quantiles_of(samples: Sequence[float]) -> list[float]:
    inner = statistics.quantiles(samples, n=_STEPS, method="inclusive")
    return [round(value, 2) for value in (min(samples), *inner, max(samples))]


@contextmanager
def _running(
    directory: Path, config: Callable[[RealKafka], Mapping[str, str]] = lambda _: {}
) -> Iterator[RealKafka]:
    settings = dict(_CONFIG)
    kafka = RealKafka(directory, settings, heap="1g", flags=PRODUCTION_FLAGS, defaults={})
    settings |= config(kafka)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


def _report(name: str, quantiles: list[float]) -> None:
    sys.stdout.write(f"{json.dumps({name: quantiles})}\n")
    sys.stdout.flush()


def _measure_first_uses(directory: Path, starts: int) -> None:
    samples: dict[str, list[float]] = {}
    for number in range(starts):
        with _running(directory / f"first{number}") as kafka:
            client = RawClient(kafka.port)
            for name, kind in _COORDINATORS.items():
                found_ms, ready_ms = first_use_ms(client, kind)
                samples.setdefault(f"{name}_found", []).append(found_ms)
                samples.setdefault(f"{name}_ready_after", []).append(ready_ms)
            client.close()
    for name, times in samples.items():
        _report(name, _quantiles_of(times))


def _measure_tls(directory: Path, count: int) -> None:
    directory.mkdir(parents=True)
    certificates = Certificates(directory)
    port = free_port()

    def config(kafka: RealKafka) -> Mapping[str, str]:
        listeners = f"PLAINTEXT://{kafka.bootstrap},SSL://127.0.0.1:{port}"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.server,
            "listeners": f"{listeners},CONTROLLER://{kafka.controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        }

    with _running(directory / "kafka", config):
        client = TlsClient(port, certificates.client())
        _report("tls_answer", _quantiles(client.answer_ms, count))
        _report("tls_plain_text_answer", _quantiles(client.plain_text_ms, count))


def main(directory: Path, count: int, starts: int) -> None:
    """Measure all delays, and print them."""
    with _running(directory / "kafka") as kafka:
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
            _report(name, _quantiles(measure, count))
    _measure_tls(directory / "tls", count)
    _measure_first_uses(directory, starts)


if __name__ == "__main__":
    _directory, *_rest = sys.argv[1:]
    _numbers = [int(text) for text in _rest] + [_COUNT, _STARTS][len(_rest) :]
    main(Path(_directory), *_numbers)
