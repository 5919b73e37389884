"""The broker's own sweep: a disk call, a timer or a call between nodes fails once.

Two librdkafka clients transform records exactly once with three nodes, and begin again after each
error. The verdicts are those of `kafkalite sweep`. All cases, or a sample of each failure, run with

    python -m tests.clients.own_sweep [--sample N --seed N]
"""

from __future__ import annotations

import argparse
import errno
import io
import random
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.lab.sweep.final_state import anomalies_of
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.logging import Level, Log
from kafkalite.testing import Broker
from kafkalite.testing.files import FaultyFile, FaultyFiles, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.cluster.node import Deliver, Node
    from kafkalite.ports.clock import Timer
    from kafkalite.protocol.api_keys import ApiKey
    from kafkalite.server.broker import Broker as ServerBroker

INPUT, OUTPUT, GROUP = "input", "output", "transformers"
INPUTS: Final = 3
_MAX_STARTS: Final = 12
_LATE_MS: Final = 3_000
_TIMEOUT_S: Final = 20
_RETRIES_MS: Final = 60_000
"""Time in which a coordinator repeats a call that was not answered, such as WriteTxnMarkers."""


class Failure(Enum):
    """What happens once."""

    WRITE = "a call that changes the disk finds it full, after the half of its bytes"
    READ = "a call that reads the disk fails with EIO"
    TIMER = "a timer is 3 s late"
    CALL_LOST = "a call to another node is lost"
    ANSWER_LOST = "a call to another node is handled, and its answer is lost"
    NOT_ANSWERED = "a call to another node is handled, and not answered"


@dataclass(frozen=True, slots=True)
class Point:
    """The place with a number, from 0 after the start of the broker, at which it fails."""

    failure: Failure
    number: int

    def __str__(self) -> str:
        """Return the text form."""
        return f"{self.failure.name}#{self.number}"


class Points:
    """Counts the places at which each failure can happen, and lets it happen at one of them."""

    def __init__(self, failing: Point | None) -> None:
        self.counts: dict[Failure, int] = dict.fromkeys(Failure, 0)
        self.has_happened = False
        self._failing = failing
        self._is_armed = False
        self._lock = Lock()

    def arm(self) -> None:
        """Count from now on."""
        self._is_armed = True

    def disarm(self) -> None:
        """Let nothing fail any more."""
        self._is_armed = False

    def fails(self, failure: Failure) -> bool:
        """Count a place; return whether the failure happens there."""
        if not self._is_armed:
            return False
        with self._lock:
            number, self.counts[failure] = self.counts[failure], self.counts[failure] + 1
        happens = self._failing == Point(failure, number)
        self.has_happened |= happens
        return happens


class _Files(FaultyFiles):
    """Files in memory that fail at a point."""

    def __init__(self, disk: MemoryFiles, points: Points) -> None:
        super().__init__(disk)
        self._points = points

    def step(self, write_part: Callable[[float], None] | None = None) -> None:
        """Fail after the half of the bytes, as a disk that becomes full does."""
        if self._points.fails(Failure.WRITE):
            if write_part is not None:
                write_part(0.5)
            raise OSError(errno.ENOSPC, "no space left on device")

    def reading(self) -> None:
        """Fail as a damaged disk does."""
        if self._points.fails(Failure.READ):
            raise OSError(errno.EIO, "input/output error")

    def open(self, path: str, *, create: bool = False) -> _File:
        if create and path not in self.disk.paths:
            self.step()
        else:
            self.reading()
        return _File(self, self.disk.open(path, create=create))

    def read(self, path: str) -> bytes:
        self.reading()
        return super().read(path)

    def list(self, path: str) -> list[str]:
        self.reading()
        return super().list(path)


class _File(FaultyFile):
    """A file of `_Files`."""

    __slots__ = ()

    def pread(self, size: int, position: int) -> bytes:
        assert isinstance(self._files, _Files)
        self._files.reading()
        return super().pread(size, position)


class _Clock(AdjustableClock):
    """A clock one of whose timers is late."""

    __slots__ = ("_points",)

    def __init__(self, points: Points, skip_rate: float) -> None:
        super().__init__(skip_rate=skip_rate)
        self._points = points

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        return super().call_at(self._deadline(deadline_ms), callback)

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        return super().wait_at(self._deadline(deadline_ms), callback)

    def _deadline(self, deadline_ms: int) -> int:
        return deadline_ms + _LATE_MS * self._points.fails(Failure.TIMER)


class _Calls:
    """Delivers the calls between nodes, except one."""

    def __init__(self, deliver: Deliver, points: Points) -> None:
        self._deliver = deliver
        self._points = points

    def __call__(self, sender: Node, receiver: Node, key: ApiKey, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        failing = {
            each: self._points.fails(each)
            for each in (Failure.CALL_LOST, Failure.ANSWER_LOST, Failure.NOT_ANSWERED)
        }
        if not failing[Failure.CALL_LOST]:
            answer = self._deliver(sender, receiver, key, request)
            if failing[Failure.NOT_ANSWERED]:
                return Waiting()
            if not failing[Failure.ANSWER_LOST]:
                return answer
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.")


class OwnBroker(Broker):
    """Three nodes whose disk, timers and calls fail at a point."""

    def __init__(self, disk: MemoryFiles, failing: Point | None) -> None:
        super().__init__(
            3,
            {INPUT: 1, OUTPUT: 2},
            {"default.replication.factor": 3},
            data_directory="/data",
        )
        self.points = Points(failing)
        self.lines = io.StringIO()
        self._log = Log(Level.ERROR, "console", self.lines)
        self._disk = _Files(disk, self.points)

    async def _start_broker(self) -> None:
        self._adjustable_clock = _Clock(self.points, skip_rate=5)
        self._served._log = self._log
        self._broker = await self._served.start(
            self._settings,
            self._adjustable_clock,
            start_recording=None,
            prepare=self._install,
            files=self._disk,
        )

    def _install(self, broker: ServerBroker) -> None:
        cluster = broker.cluster
        assert cluster is not None
        assert cluster.deliver is not None
        cluster.deliver = _Calls(cluster.deliver, self.points)


def transform(servers: str) -> None:
    """Write a result of each input in a transaction, until all inputs are read.

    Begins again after an error; raises KafkaException after the last attempt.
    """
    for attempt in range(1, _MAX_STARTS + 1):
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": "transformer",
                "transaction.timeout.ms": 10_000,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        try:
            consumer.subscribe([INPUT])
            producer.init_transactions(_TIMEOUT_S)
            _transform_all(producer, consumer)
        except KafkaException:
            if attempt == _MAX_STARTS:
                raise
            with suppress(KafkaException):
                producer.abort_transaction(_TIMEOUT_S)
        else:
            return
        finally:
            consumer.close()


def _transform_all(producer: Producer, consumer: Consumer) -> None:
    (committed,) = consumer.committed([TopicPartition(INPUT, 0)], _TIMEOUT_S)
    position = max(0, committed.offset)
    while position < INPUTS:
        record = consumer.poll(_TIMEOUT_S)
        if record is None or record.error():
            raise KafkaException(None if record is None else record.error())
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(OUTPUT, b"result of " + (record.value() or b""), partition=partition)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), _TIMEOUT_S
        )
        producer.commit_transaction(_TIMEOUT_S)
        position = (record.offset() or 0) + 1


def problems(failing: Point | None) -> tuple[list[str], Points]:
    """Run the clients with one failure; return what is wrong, and the counted places."""
    disk = MemoryFiles()
    broker = OwnBroker(disk, failing)
    found: list[str] = []
    with broker:
        for number in range(INPUTS):
            broker.produce(INPUT, f"input {number}", partition=0)
        broker.start_checking()
        broker.points.arm()
        try:
            transform(broker.bootstrap_servers)
        except KafkaException as error:
            found.append(f"the clients did not succeed: {error}")
        broker.points.disarm()
        broker.clock.advance(milliseconds=_RETRIES_MS)
        found += [f"{rule}: {text}" for rule, text in anomalies_of(broker)]
        found += _wrong_results(broker)
    with OwnBroker(disk, None) as restarted:
        found += [f"after a restart: {each}" for each in _wrong_results(restarted)]
    found += [f"the broker has a bug: {line}" for line in broker.lines.getvalue().splitlines()]
    return found, broker.points


def _wrong_results(broker: Broker) -> Iterator[str]:
    expected = [f"result of input {number}" for number in range(INPUTS)]
    for partition in range(2):
        results = _committed_values(broker, partition)
        if results != expected:
            yield f"{OUTPUT}-{partition} has {results}"
    offsets = broker.committed(GROUP)
    if offsets != {(INPUT, 0): INPUTS}:
        yield f"the group has committed {offsets}"


def _committed_values(broker: Broker, partition: int) -> list[str]:
    records = broker.records(OUTPUT, partition=partition, isolation="read_committed")
    return [(each.value or b"").decode() for each in records]


def sampled(counts: dict[Failure, int], seed: int, size: int | None = None) -> list[Point]:
    """Return the points of a run without failures: all, or `size` of each failure by a seed."""
    choices = random.Random(seed)  # noqa: S311 - not for secrets
    found = []
    for failure, count in counts.items():
        numbers = range(count)
        chosen = numbers if size is None else choices.sample(numbers, min(size, count))
        found += [Point(failure, number) for number in chosen]
    return found


def main() -> None:
    """Run the cases, and print those that the broker does not survive."""
    parser = argparse.ArgumentParser(description="Fail disk calls, timers and calls once each.")
    parser.add_argument("--sample", type=int, help="number of cases of each failure [all]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample [1]")
    options = parser.parse_args()
    found, points = problems(None)
    assert not found, found
    every = sampled(points.counts, options.seed, options.sample)
    failed = 0
    for number, point in enumerate(every, 1):
        wrong, reached = problems(point)
        failed += bool(wrong)
        state = "failed" if wrong else "survived" if reached.has_happened else "not reached"
        lines = "\n  ".join([f"{number}/{len(every)} {point}: {state}", *wrong])
        sys.stdout.write(f"{lines}\n")
    sys.stdout.write(f"{len(every)} cases: {failed} failed\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
