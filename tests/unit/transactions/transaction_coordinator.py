"""A transaction coordinator with one shard; the test controls its log, clock and markers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.transactions.coordinator import TransactionCoordinator
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.producer_initialization import InitializationResult, ProducerRequest
from kafkalite.transactions.state import ProducerIdAndEpoch
from kafkalite.transactions.transaction_records import TransactionSerde, transaction_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.transactions.shard import TransactionShard
    from kafkalite.transactions.state import TopicPartition, Transaction

NODE = 1
ID = "x"
FIRST_PRODUCER_ID = 4_000
TIMEOUT_MS = 60_000
A, B, C = ("t", 0), ("t", 1), ("u", 0)
LOADED = MetadataImage(
    topics={
        TRANSACTION_STATE_TOPIC: TopicImage(
            TRANSACTION_STATE_TOPIC, bytes(15) + b"\1", (PartitionImage(0, NODE, 0, 0, (), ()),)
        )
    }
)


def error_code_of(ask: Callable[[], object]) -> ErrorCode:
    """Return the error code of a request, NONE if it succeeds."""
    try:
        ask()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


class FakeMetadata:
    """The part of the controller that a transaction coordinator uses."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image


class ManualTransactionCoordinator:
    """A transaction coordinator with its log, clock and intents."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        level: int = 2,
        log: MemoryCoordinatorLog | None = None,
        writes_markers: bool = True,
        next_producer_id: int = FIRST_PRODUCER_ID,
        clock: ManualClock | None = None,
    ) -> None:
        self.settings = config or {}
        self.level = level
        self.clock = clock or ManualClock()
        self.log = log or MemoryCoordinatorLog()
        self.writes_markers = writes_markers
        self.producer_ids = itertools.count(next_producer_id)
        self.no_producer_ids: KafkaError | None = None
        self.markers: list[WriteMarkers] = []
        """Requested markers that are not written yet."""
        self.written: list[WriteMarkers] = []
        self.history = EventHistory()
        self.coordinator = TransactionCoordinator(
            clock=self.clock,
            config=BrokerConfig.from_text(self.settings),
            metadata=cast("MetadataController", FakeMetadata(self.image)),
            generate_producer_id=self.generate_producer_id,
            open_log=lambda _: self.log,
            history=self.history,
            carry_out=self.carry_out,
        )
        self.coordinator.on_image(self.image, MetadataDelta())

    @property
    def image(self) -> MetadataImage:
        return LOADED._replace(features={"transaction.version": self.level} if self.level else {})

    def set_level(self, level: int) -> None:
        """Set the cluster's level of `transaction.version`."""
        self.level = level
        self.coordinator.on_image(self.image, MetadataDelta())

    def generate_producer_id(self) -> int:
        if self.no_producer_ids is not None:
            raise self.no_producer_ids
        return next(self.producer_ids)

    def carry_out(self, intent: object) -> None:
        assert isinstance(intent, WriteMarkers)
        self.markers.append(intent)
        if self.writes_markers:
            self.write_markers()

    def write_markers(self) -> None:
        """Write the requested markers, and notify the coordinator."""
        while self.markers:
            self.complete(self.markers.pop(0))

    def complete(self, intent: WriteMarkers) -> None:
        """Notify the coordinator that markers are written."""
        self.written.append(intent)
        self.coordinator.write(
            0, lambda machine, now_ms: machine.complete_transaction(intent, now_ms)
        )

    @property
    def machine(self) -> TransactionShard:
        return self.coordinator.shards()[0].machine

    def restart(self, *, writes_markers: bool = False) -> ManualTransactionCoordinator:
        """Return a coordinator that loads the log, at the same time."""
        return ManualTransactionCoordinator(
            self.settings,
            level=self.level,
            log=MemoryCoordinatorLog(self.log.entries),
            writes_markers=writes_markers,
            next_producer_id=next(self.producer_ids),
            clock=ManualClock(self.clock.now_ms()),
        )

    def seed(self, *, next_producer_id: int = 5_000, **changes: int) -> None:
        """Initialise an id, then append a record with a changed state.

        For example a used-up epoch would take too many transactions in a test.
        """
        self.init()
        changed = self.describe()._replace(**changes)  # type: ignore[arg-type]
        result = CoordinatorResult(None, [transaction_record(changed)])
        self.coordinator.shards()[0].write(lambda *_: result)
        self.producer_ids = itertools.count(next_producer_id)

    def records(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records of the log."""
        serde = TransactionSerde(lambda: 0)
        decoded = [serde.decode(key, value) for key, value in self.log.entries]
        return [record for record in decoded if record is not None]

    def events(self, transactional_id: str = ID) -> list[Entry]:
        """Return the events of an id."""
        return list(self.history.about(transactional_id, of=Entity.TRANSACTIONAL_ID))

    # Requests of producers

    def init(
        self,
        expected: ProducerIdAndEpoch | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
        enable_two_phase_commit: bool = False,
        keep_prepared_transaction: bool = False,
    ) -> ProducerIdAndEpoch:
        """Initialise an id; KafkaError also if an open transaction is aborted first."""
        request = ProducerRequest(
            timeout_ms, expected, enable_two_phase_commit, keep_prepared_transaction
        )
        answer = self.coordinator.write(
            0,
            lambda machine, now_ms: machine.init_producer_id(transactional_id, request, now_ms),
        )
        assert isinstance(answer, InitializationResult)
        if answer.error is not ErrorCode.NONE:
            raise KafkaError(answer.error)
        return answer.producer

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        version: int = 2,
        transactional_id: str = ID,
    ) -> None:
        """Add partitions to a transaction."""
        self.coordinator.write(
            0,
            lambda machine, now_ms: machine.add_partitions(
                transactional_id, producer, partitions, version, now_ms
            ),
        )

    def verify(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition) -> list[ErrorCode]:
        """Return which partitions are in a transaction."""
        codes = self.coordinator.read(
            0, lambda machine, _: machine.verify_partitions(ID, producer, partitions)
        )
        return [codes[each] for each in partitions]

    def end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool = True,
        version: int = 2,
        transactional_id: str = ID,
    ) -> ProducerIdAndEpoch:
        """End a transaction; return the producer to use next."""
        answer = self.coordinator.write(
            0,
            lambda machine, now_ms: machine.end(
                transactional_id,
                producer,
                is_commit=is_commit,
                client_transaction_version=version,
                now_ms=now_ms,
            ),
        )
        assert isinstance(answer, ProducerIdAndEpoch)
        return answer

    def reset(self, transactional_id: str = ID) -> bool:
        """Reset an id as a reset of the broker does; return whether it is removed."""
        answer = self.coordinator.write(
            0, lambda machine, now_ms: machine.reset(transactional_id, now_ms)
        )
        assert isinstance(answer, bool)
        return answer

    def describe(self, transactional_id: str = ID) -> Transaction:
        """Return the state of an id."""
        return self.coordinator.read(0, lambda machine, _: machine.describe(transactional_id))
