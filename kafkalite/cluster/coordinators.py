"""Coordinators of one cluster, each created when it is first used or its internal topic exists.

Without them a broker starts faster, and most brokers need only some of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.metadata.image import MetadataDelta
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.partitions.coordinator_log import open_coordinator_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.contract import CoordinatorLog
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.shares.coordinator import ShareCoordinator
    from kafkalite.shares.partition_table import SharePartitionTable
    from kafkalite.transactions.coordinator import TransactionCoordinator

C = TypeVar("C", "GroupCoordinator", "ShareCoordinator", "TransactionCoordinator")

TOPIC_BY_PART: Final = {
    "shares": SHARE_STATE_TOPIC,
    "share_partitions": None,
    "groups": OFFSETS_TOPIC,
    "transactions": TRANSACTION_STATE_TOPIC,
}
"""Part → the internal topic with its state, in the order in which the parts receive metadata.

They are stopped in the reverse order."""


class Coordinators:
    """The coordinators of a cluster, and its share partitions."""

    def __init__(self, cluster: Cluster, *, is_restored: bool) -> None:
        """Create none of them yet.

        If the cluster is restored from a snapshot, the group coordinator loads a partition with an
        empty log when it is first used.
        """
        self._cluster = cluster
        self._is_restored = is_restored
        self._image = cluster.metadata.image
        """The metadata that the parts have received."""
        self._unreachable_nodes: frozenset[int] = frozenset()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply new metadata, and create the coordinators whose internal topics exist.

        Call this after the logs were opened or closed. Raises OSError if a log cannot be read; all
        parts get the metadata even then.
        """
        self._image = image
        existing = self.existing()
        failure: OSError | None = None
        for name, topic in TOPIC_BY_PART.items():
            try:
                if name in existing:
                    existing[name].on_image(image, delta)
                elif topic in image.topics:
                    getattr(self, name)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def existing(self) -> dict[str, Any]:
        """Return the parts that were created, by name, in the order of TOPIC_BY_PART."""
        created = vars(self)
        return {name: created[name] for name in TOPIC_BY_PART if name in created}

    def coordinators(self) -> Iterator[tuple[str, CoordinatorRuntime[Any]]]:
        """Yield the coordinators that were created, each after its internal topic."""
        for name, part in self.existing().items():
            if (topic := TOPIC_BY_PART[name]) is not None:
                yield topic, part

    def set_unreachable_nodes(self, node_ids: frozenset[int]) -> None:
        """Unload the shards of nodes that no other node reaches, and load those of other nodes."""
        self._unreachable_nodes = node_ids
        for _, coordinator in self.coordinators():
            coordinator.set_unreachable_nodes(node_ids)

    def stop(self) -> None:
        """Unload everything: timers stop, waiting requests are refused."""
        existing = self.existing()
        for name in reversed(existing):
            existing[name].stop()

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        from kafkalite.groups.coordinator import GroupCoordinator  # noqa: PLC0415 - rarely used

        cluster = self._cluster
        groups = GroupCoordinator(
            clock=cluster.clock,
            entropy=cluster.entropy,
            config=cluster.config,
            image=self._image,
            open_log=lambda index: self._open_log(OFFSETS_TOPIC, index),
            history=cluster.history,
            carry_out=cluster.outbox.carry_out,
            is_log_empty=self._is_offsets_log_empty if self._is_restored else None,
            window=cluster.commit_window,
        )
        return self._start("groups", groups)

    @cached_property
    def shares(self) -> ShareCoordinator:
        """The share coordinator."""
        from kafkalite.shares.coordinator import ShareCoordinator  # noqa: PLC0415 - rarely used

        cluster = self._cluster
        shares = ShareCoordinator(
            clock=cluster.clock,
            config=cluster.config,
            metadata=cluster.metadata,
            open_log=lambda index: self._open_log(SHARE_STATE_TOPIC, index),
            prunable_log=lambda index: cluster.partitions.logs()[SHARE_STATE_TOPIC, index],
            history=cluster.history,
        )
        return self._start("shares", shares)

    @cached_property
    def share_partitions(self) -> SharePartitionTable:
        """The share partitions that nodes lead."""
        from kafkalite.shares.partition_table import SharePartitionTable  # noqa: PLC0415 - as above

        cluster = self._cluster
        share_partitions = SharePartitionTable(
            clock=cluster.clock, config=cluster.config, history=cluster.history
        )
        share_partitions.on_image(self._image, MetadataDelta())
        return share_partitions

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        from kafkalite.transactions.coordinator import (  # noqa: PLC0415 - rarely used
            TransactionCoordinator,
        )

        cluster = self._cluster
        transactions = TransactionCoordinator(
            clock=cluster.clock,
            config=cluster.config,
            metadata=cluster.metadata,
            generate_producer_id=self._generate_producer_id,
            open_log=lambda index: self._open_log(TRANSACTION_STATE_TOPIC, index),
            history=cluster.history,
            carry_out=cluster.outbox.carry_out,
        )
        return self._start("transactions", transactions)

    def _start(self, name: str, coordinator: C) -> C:
        """Let a new coordinator load what is in its topic; it exists even if that fails."""
        vars(self)[name] = coordinator
        coordinator.set_unreachable_nodes(self._unreachable_nodes)
        coordinator.on_image(self._image, MetadataDelta())
        return coordinator

    def _open_log(self, topic: str, index: int) -> CoordinatorLog:
        return open_coordinator_log(self._cluster.partitions, topic, index)

    def _is_offsets_log_empty(self, index: int) -> bool:
        return self._cluster.partitions.is_log_empty(OFFSETS_TOPIC, index)

    def _generate_producer_id(self) -> int:
        cluster = self._cluster
        node_id = min(cluster.nodes)
        allocate = cluster.metadata.allocate_producer_ids
        return cluster.partitions.producer_ids.next_id(node_id, lambda: allocate(node_id))
