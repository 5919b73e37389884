"""TransactionCoordinator: transaction shards on the coordinator runtime, and who asks of them.

As with groups, the machines are imported when the first shard is led. Leaders of partitions ask
here, in plain calls, whether a producer may write in its transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.records import TransactionSerde, written_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorLog
    from kafkalite.coordinator.journal import Journal
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.transactions.shard import TransactionShard
    from kafkalite.transactions.state import Producer, TopicPartition

_IMPLICIT = 2
"""The transaction version of clients whose partitions join by being written to (KIP-890)."""


class TransactionCoordinator(CoordinatorRuntime["TransactionShard"]):
    """The transaction coordinator of all nodes of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataController,
        draw_producer_id: Callable[[], int],
        open_log: Callable[[int], CoordinatorLog],
        journal: Journal | None = None,
        carry_out: Callable[[object], None] | None = None,
    ) -> None:
        """Make a coordinator; `draw_producer_id` gives a producer id that nobody was given."""
        super().__init__(
            clock=clock,
            serde=TransactionSerde(lambda: written_version(self._level())),
            partition_count=lambda: config.int("transaction.state.log.num.partitions"),
            open_log=open_log,
            make_machine=lambda: _new_shard(config, self._image, draw_producer_id),
            journal=journal,
            carry_out=self._hand_on,
        )
        self._carry_out_loaded = carry_out
        self._named: list[object] | None = None
        """What shards that are being loaded want done; None while none is."""
        self._metadata = metadata
        self._image = metadata.image

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata: who leads which shard, and which level was agreed on.

        To be called after the logs were opened or closed; a topic's first image loads its shards.
        OSError when a log could not be read; the shards that are there have heard all the same.
        """
        del delta
        self._image = image
        for shard in self._shards.values():
            shard.machine.on_image(image)
        topic = image.topics.get(TRANSACTION_STATE_TOPIC)
        self.lead(() if topic is None else [partition.leader for partition in topic.partitions])

    def lead(self, leaders: Sequence[int]) -> None:
        """Take note of who leads each partition; see CoordinatorRuntime.lead.

        What was left undone is handed on when all are loaded: whoever does it asks them for more.
        """
        named: list[object] = []
        self._named = named
        try:
            super().lead(leaders)
        finally:
            self._named = None
            for intent in named:
                self._hand_on(intent)

    def _hand_on(self, intent: object) -> None:
        if self._named is not None:
            self._named.append(intent)
        elif self._carry_out_loaded is not None:
            self._carry_out_loaded(intent)

    def have_topic(self) -> None:
        """Make the topic that transactions are kept on, unless it is there.

        KafkaError COORDINATOR_NOT_AVAILABLE when it cannot be made.
        """
        self._metadata.have_internal_topic(TRANSACTION_STATE_TOPIC)

    def shard_for(self, transactional_id: str) -> ActiveShard[TransactionShard]:
        """Return the shard that keeps an id, whoever speaks for it.

        KafkaError COORDINATOR_NOT_AVAILABLE where there is no topic, NOT_COORDINATOR where the log
        is not to be had.
        """
        if not self._led_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._located.get(transactional_id) or self._search(transactional_id)

    def admit(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Say of each partition whether a producer may write to it in its transaction.

        With `adds` those that are not in it join it, otherwise they get TRANSACTION_ABORTABLE. The
        codes are the coordinator's own: PRODUCER_FENCED among them, and what its log refuses with.
        """
        try:
            shard = self.shard_for(transactional_id)
            if not adds:
                return shard.machine.verify_partitions(transactional_id, producer, partitions)
            shard.write(
                lambda machine, now_ms: machine.add_partitions(
                    transactional_id, producer, partitions, _IMPLICIT, now_ms
                )
            )
        except KafkaError as error:
            self._note(transactional_id, error)
            return dict.fromkeys(partitions, error.code)
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def _note(self, transactional_id: str, error: KafkaError) -> None:
        kind = "fenced" if error.code is ErrorCode.PRODUCER_FENCED else "refused"
        facts = {"error": error.code.name, **(error.facts or {})}
        text = error.message or error.code.message
        event = Event(transactional_id, kind, text, facts, SubjectKind.TRANSACTIONAL_ID)
        self._journal.note(event, self._clock.now_ms())

    def _level(self) -> int:
        return self._image.features.get(TRANSACTION_VERSION, 0)


def _new_shard(
    config: BrokerConfig, image: MetadataImage, draw_producer_id: Callable[[], int]
) -> TransactionShard:
    from kafkalite.transactions.shard import TransactionShard  # noqa: PLC0415 - see the docstring

    return TransactionShard(config=config, image=image, draw_producer_id=draw_producer_id)
