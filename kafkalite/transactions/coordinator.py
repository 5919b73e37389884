"""TransactionCoordinator: transaction shards on the coordinator runtime, and their queries.

The machines are imported when the first shard is loaded, as those of groups are. Leaders of
partitions call `verify_or_add_partitions` directly to ask whether a producer may write in its
transaction.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.transaction_records import TransactionSerde, written_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorLog
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.transactions.shard import TransactionShard
    from kafkalite.transactions.state import ProducerIdAndEpoch, TopicPartition

_IMPLICIT_ADDITION_VERSION = 2
"""The transaction version of clients whose writes add partitions implicitly (KIP-890)."""


class TransactionCoordinator(CoordinatorRuntime["TransactionShard"]):
    """The transaction coordinator of all nodes of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataController,
        generate_producer_id: Callable[[], int],
        open_log: Callable[[int], CoordinatorLog],
        history: EventHistory | None = None,
        carry_out: Callable[[object], None] | None = None,
    ) -> None:
        """Create a coordinator; `generate_producer_id` returns a producer id that is not in use."""
        super().__init__(
            clock=clock,
            serde=TransactionSerde(lambda: written_version(self._transaction_version())),
            partition_count=lambda: config.int("transaction.state.log.num.partitions"),
            open_log=open_log,
            make_machine=lambda leader_id: _new_shard(
                config.of_node(leader_id), self._image, generate_producer_id
            ),
            history=history,
            carry_out=self._carry_out_when_loaded,
        )
        self._carry_out_intent = carry_out
        self._loading_intents: list[object] | None = None
        """Intents of the shards that are being loaded; None while no shard is being loaded."""
        self._metadata = metadata
        self._image = metadata.image

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a new metadata image: leaders of the shards, and the transaction version.

        Must be called after logs were opened or closed. The topic's first image loads the shards.
        Raises OSError when a log could not be read; the loaded shards get the new image even then.
        """
        del delta
        self._image = image
        for shard in self._shards.values():
            shard.machine.on_image(image)
        topic = image.topics.get(TRANSACTION_STATE_TOPIC)
        self.set_leaders(
            () if topic is None else [partition.leader for partition in topic.partitions]
        )

    def set_leaders(self, leaders: Sequence[int]) -> None:
        """Set the leader of each partition; see CoordinatorRuntime.set_leaders.

        Intents of loading shards are handed over when all are loaded, because carrying them out
        needs the other shards.
        """
        with self._intents_after_loading():
            super().set_leaders(leaders)

    def reload(self, partition: int) -> None:
        """Drop the shard of a partition and load it again; see CoordinatorRuntime.reload."""
        with self._intents_after_loading():
            super().reload(partition)

    @contextmanager
    def _intents_after_loading(self) -> Iterator[None]:
        pending_intents: list[object] = []
        self._loading_intents = pending_intents
        try:
            yield
        finally:
            self._loading_intents = None
            for intent in pending_intents:
                self._carry_out_when_loaded(intent)

    def _carry_out_when_loaded(self, intent: object) -> None:
        if self._loading_intents is not None:
            self._loading_intents.append(intent)
        elif self._carry_out_intent is not None:
            self._carry_out_intent(intent)

    def ensure_topic(self, node_id: int | None = None) -> None:
        """Create the topic of the transaction log, if it does not exist.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE if that fails.
        """
        self._metadata.ensure_internal_topic(TRANSACTION_STATE_TOPIC, node_id)

    def shard_for(self, transactional_id: str) -> ActiveShard[TransactionShard]:
        """Return the shard of an id, led by any node.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE if the topic does not exist, NOT_COORDINATOR if
        the log is not available.
        """
        if not self._partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return super().shard_for(transactional_id)

    def verify_or_add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        adds_missing: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether a producer may write to it in its transaction.

        With `adds_missing`, missing partitions are added; otherwise they get
        TRANSACTION_ABORTABLE. Other codes are the coordinator's own, such as PRODUCER_FENCED, and
        those of a failed append.
        """
        try:
            shard = self.shard_for(transactional_id)
            if not adds_missing:
                return shard.machine.verify_partitions(transactional_id, producer, partitions)
            shard.write(
                lambda machine, now_ms: machine.add_partitions(
                    transactional_id, producer, partitions, _IMPLICIT_ADDITION_VERSION, now_ms
                )
            )
        except KafkaError as error:
            self._record_refusal(transactional_id, error)
            return dict.fromkeys(partitions, error.code)
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def _record_refusal(self, transactional_id: str, error: KafkaError) -> None:
        kind = "fenced" if error.code is ErrorCode.PRODUCER_FENCED else "refused"
        facts = {"error": error.code.name, **(error.facts or {})}
        text = error.message or error.code.message
        event = Event(transactional_id, kind, text, facts, Entity.TRANSACTIONAL_ID)
        self._history.add(event, self._clock.now_ms())

    def _transaction_version(self) -> int:
        return self._image.features.get(TRANSACTION_VERSION, 0)


def _new_shard(
    config: BrokerConfig, image: MetadataImage, generate_producer_id: Callable[[], int]
) -> TransactionShard:
    from kafkalite.transactions.shard import TransactionShard  # noqa: PLC0415 - see the docstring

    return TransactionShard(config=config, image=image, generate_producer_id=generate_producer_id)
