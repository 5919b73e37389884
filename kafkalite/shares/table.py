"""The share partitions of a cluster: those that somebody reads, and who has a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquiring import Limits
from kafkalite.shares.partition import NOT_LED_HERE, SharePartition
from kafkalite.shares.sessions import SessionKey, ShareSessions
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import Event
    from kafkalite.coordinator.journal import Journal
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.shares.partition import StateStore


class SharePartitions:
    """Every share partition that was read since it had its present leader."""

    def __init__(
        self, *, clock: Clock, config: BrokerConfig, store: StateStore, journal: Journal
    ) -> None:
        self.clock = clock
        self.store = store
        self._config = config
        self._journal = journal
        self._partitions: dict[str, dict[ShareKey, SharePartition]] = {}
        """By group, for they go with whoever reads them last; none is empty."""
        self._sessions: dict[int, ShareSessions] = {}

    # --- what all share partitions have in common ----------------------------------------------

    def limits(self, group_id: str) -> Limits:
        """Return what a group allows just now."""
        config = self._config
        return Limits(
            deliveries=config.group_int(group_id, "share.delivery.count.limit"),
            records=config.group_int(group_id, "share.partition.max.record.locks"),
            lock_ms=config.group_int(group_id, "share.record.lock.duration.ms"),
            allows_renewal=bool(config.group_get(group_id, "share.renew.acknowledge.enable")),
        )

    def note(self, event: Event) -> None:
        """Keep why something befell a group."""
        self._journal.note(event, self.clock.now_ms())

    # --- partitions ----------------------------------------------------------------------------

    def find(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition that is being read, or None."""
        return self._partitions.get(key.group_id, {}).get(key)

    def begin(
        self, key: ShareKey, *, name: str, leader_epoch: int, choose_start: Callable[[], int]
    ) -> SharePartition:
        """Return a share partition, begun with the state that is kept if it is not being read.

        `choose_start` is asked where to start when nobody has chosen yet. KafkaError when the state
        cannot be read.
        """
        found = self.find(key)
        if found is not None and found.leader_epoch == leader_epoch:
            return found
        self.drop(key)
        made = SharePartition(
            key, name=name, leader_epoch=leader_epoch, around=self, choose_start=choose_start
        )
        self._partitions.setdefault(key.group_id, {})[key] = made
        return made

    def drop(self, key: ShareKey) -> None:
        """Let go of a share partition; whoever reads it next begins anew with what is kept."""
        of_group = self._partitions.get(key.group_id, {})
        partition = of_group.pop(key, None)
        if partition is not None:
            if not of_group:
                del self._partitions[key.group_id]
            partition.close()

    def drop_after(self, key: ShareKey, error: KafkaError) -> None:
        """Let go of a share partition if this error says that it is not ours as it is."""
        if error.code in NOT_LED_HERE:
            self.drop(key)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Let go of partitions that are gone or have another leader."""
        touched = {topic.topic_id for topic in (*delta.deleted, *delta.changed)}
        if not touched:
            return
        for key, partition in self._all():
            if key.topic_id in touched:
                topic = image.topics_by_id.get(key.topic_id)
                if topic is None or (
                    topic.partitions[key.partition].leader_epoch != partition.leader_epoch
                ):
                    self.drop(key)

    def stop(self) -> None:
        """Let go of everything."""
        for key, _ in self._all():
            self.drop(key)

    def _all(self) -> list[tuple[ShareKey, SharePartition]]:
        return [each for of_group in self._partitions.values() for each in of_group.items()]

    # --- sessions ------------------------------------------------------------------------------

    def sessions(self, node_id: int) -> ShareSessions:
        """Return the share sessions of a node."""
        sessions = self._sessions.get(node_id)
        if sessions is None:
            sessions = self._sessions[node_id] = ShareSessions(
                lambda: self._config.int("group.share.max.share.sessions")
            )
        return sessions

    def end_session(self, node_id: int, key: SessionKey) -> None:
        """End a session; what its member has is there for others, as far as that can be kept."""
        for topic_id, index in self.sessions(node_id).end(key):
            share_key = ShareKey(key.group_id, topic_id, index)
            partition = self.find(share_key)
            if partition is not None:
                try:
                    partition.release(key.member_id)
                except KafkaError as error:
                    self.drop_after(share_key, error)

    def end_sessions_of(self, node_id: int, owner: object, group_id: str) -> None:
        """End the sessions in a group of one who went away.

        When nobody has a session any more, the group's share partitions go as well: whoever comes
        next begins with what is kept, which an administrator may have changed meanwhile.
        """
        for key in self.sessions(node_id).owned_by(owner, group_id):
            self.end_session(node_id, key)
        if not any(each.has_group(group_id) for each in self._sessions.values()):
            for share_key in tuple(self._partitions.get(group_id, ())):
                self.drop(share_key)
