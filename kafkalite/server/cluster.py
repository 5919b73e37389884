"""Cluster: the machines of one emulated cluster, joined to their logs and to each other.

All nodes share it. What is built here follows the metadata log: first that is read, then the
partitions it names are opened, then the coordinators that live on some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.context import Services
from kafkalite.config.log_config import LogConfig
from kafkalite.config.topic import topic_log_config
from kafkalite.coordinator.journal import Journal
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.creation import BROKER_DEFAULT, NewTopic
from kafkalite.metadata.image import MetadataDelta, PartitionImage
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog, open_coordinator_log
from kafkalite.partitions.partition import Partition
from kafkalite.partitions.table import PartitionTable
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ONE_UUID, uuid_to_text
from kafkalite.server.outbox import Outbox
from kafkalite.server.share_intents import ShareIntents
from kafkalite.server.transaction_intents import TransactionIntents
from kafkalite.shares.coordinator import ShareCoordinator
from kafkalite.shares.table import SharePartitions
from kafkalite.transactions.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.apis.context import Endpoint
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.storage.directory import DataDirectory

_METADATA_LEADER_EPOCH = 1
_METADATA_LOG_CONFIG = LogConfig(max_message_bytes=2**31 - 1)
"""A change of the metadata is one batch however many topics it makes; other limits bound it."""


class TopicError(ValueError):
    """A topic that was to be there from the start and cannot be; the text is one line."""


class Cluster:
    """The state of one emulated cluster, from its directory."""

    def __init__(
        self,
        *,
        directory: DataDirectory,
        clock: Clock,
        entropy: Entropy,
        config: BrokerConfig,
        node_ids: Sequence[int],
    ) -> None:
        """Read everything from `directory`; OSError when that fails."""
        self._clock = clock
        self._entropy = entropy
        self._config = config
        metadata_log = _metadata_log(directory, clock, node_ids[0])
        self.partitions = PartitionTable(
            directory=directory,
            beside={(METADATA_TOPIC, 0): metadata_log.log},
            clock=clock,
            entropy=entropy,
            log_config=lambda overrides: topic_log_config(overrides, config),
            fetch_session_slots=config.int("max.incremental.fetch.session.cache.slots"),
        )
        self.metadata = MetadataController(
            log=PartitionCoordinatorLog(metadata_log),
            config=config,
            clock=clock,
            entropy=entropy,
        )
        rack = config.str_or_none("broker.rack")
        self.metadata.start(dict.fromkeys(node_ids, rack))
        image = self.metadata.image
        self.partitions.open(image)
        self.journal = Journal()
        self.outbox = Outbox(clock)
        self.groups = self._new_groups(image)
        self.shares = self._new_shares()
        self.share_partitions = SharePartitions(
            clock=clock, config=config, store=self.shares, journal=self.journal
        )
        self.transactions = self._new_transactions(node_ids[0])
        self._load(image)

    def _load(self, image: MetadataImage) -> None:
        """Load the coordinators from their logs, and have all follow the metadata from here on.

        What they left undone is done last, for it goes from one of them to another.
        """
        nothing = MetadataDelta()
        self.shares.on_image(image, nothing)
        self.groups.on_image(image, nothing)
        self.transactions.on_image(image, nothing)
        self.metadata.subscribe(self.partitions.apply)
        self.metadata.subscribe(self.shares.on_image)
        self.metadata.subscribe(self.share_partitions.on_image)
        self.metadata.subscribe(self.groups.on_image)
        self.metadata.subscribe(self.transactions.on_image)
        ShareIntents(self.groups, self.shares).join(self.outbox)
        TransactionIntents(
            clock=self._clock,
            metadata=self.metadata,
            partitions=self.partitions,
            groups=self.groups,
            transactions=self.transactions,
        ).join(self.outbox)
        self.outbox.open()

    def _new_groups(self, image: MetadataImage) -> GroupCoordinator:
        return GroupCoordinator(
            clock=self._clock,
            entropy=self._entropy,
            config=self._config,
            image=image,
            open_log=lambda index: open_coordinator_log(self.partitions, OFFSETS_TOPIC, index),
            journal=self.journal,
            carry_out=self.outbox.carry_out,
        )

    def _new_shares(self) -> ShareCoordinator:
        return ShareCoordinator(
            clock=self._clock,
            config=self._config,
            metadata=self.metadata,
            open_log=lambda index: open_coordinator_log(self.partitions, SHARE_STATE_TOPIC, index),
            log_of=lambda index: self.partitions.logs()[SHARE_STATE_TOPIC, index],
            journal=self.journal,
        )

    def _new_transactions(self, node_id: int) -> TransactionCoordinator:
        producer_ids, allocate = self.partitions.producer_ids, self.metadata.allocate_producer_ids
        return TransactionCoordinator(
            clock=self._clock,
            config=self._config,
            metadata=self.metadata,
            draw_producer_id=lambda: producer_ids.draw(node_id, lambda: allocate(node_id)),
            open_log=lambda index: open_coordinator_log(
                self.partitions, TRANSACTION_STATE_TOPIC, index
            ),
            journal=self.journal,
            carry_out=self.outbox.carry_out,
        )

    def services(self, cluster_id: str, endpoints: Callable[[str], Sequence[Endpoint]]) -> Services:
        """Return the cluster as handlers see it."""
        return Services(
            clock=self._clock,
            entropy=self._entropy,
            cluster_id=cluster_id,
            config=self._config,
            metadata=self.metadata,
            partitions=self.partitions,
            groups=self.groups,
            shares=self.shares,
            share_partitions=self.share_partitions,
            transactions=self.transactions,
            endpoints=endpoints,
            journal=self.journal,
        )

    def have_topics(self, wanted: Mapping[str, int]) -> None:
        """Make the topics that are not there yet, name → partitions; TopicError when one cannot be.

        A topic that is there stays as it is, unless it has too few partitions for those asked for.
        """
        topics = self.metadata.image.topics
        for name, partitions in wanted.items():
            if name in topics and len(topics[name].partitions) != partitions:
                raise TopicError(
                    f"topic {name} has {len(topics[name].partitions)} partitions here, "
                    f"not {partitions}"
                )
        missing = [
            NewTopic(name=name, partitions=partitions, replication_factor=BROKER_DEFAULT)
            for name, partitions in wanted.items()
            if name not in topics
        ]
        if not missing:
            return
        try:
            made = self.metadata.create_topics(missing)
        except KafkaError as error:
            raise TopicError(f"cannot have these topics: {error.message}") from error
        for creation in made:
            if creation.error is not None:
                reason = creation.error.message or creation.error.code.name
                raise TopicError(f"cannot have topic {creation.name}: {reason}")

    def end_waits(self) -> None:
        """Answer whoever waits, for nothing more will happen here; the logs can still be read."""
        self.partitions.end_waits()
        self.outbox.close()
        self.transactions.stop()
        self.groups.stop()
        self.share_partitions.stop()
        self.shares.stop()


def _metadata_log(directory: DataDirectory, clock: Clock, leader: int) -> Partition:
    """Return the metadata log as the partition that Kafka takes it for."""
    log = directory.open_log(
        METADATA_TOPIC,
        0,
        _METADATA_LOG_CONFIG,
        now_ms=clock.now_ms(),
        topic_id=uuid_to_text(ONE_UUID),
    )
    image = PartitionImage(
        index=0,
        leader=leader,
        leader_epoch=_METADATA_LEADER_EPOCH,
        partition_epoch=0,
        replicas=(leader,),
        isr=(leader,),
    )
    return Partition(METADATA_TOPIC, ONE_UUID, image, log, is_internal=True)
