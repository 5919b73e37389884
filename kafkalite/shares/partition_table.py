"""The share partitions of a cluster that are being read, and the share sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.features import SHARE_VERSION
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquisition import ShareLimits
from kafkalite.shares.partition import STALE_STATE_ERRORS, SharePartition, to_member_error
from kafkalite.shares.sessions import SessionKey, ShareSessions
from kafkalite.shares.state import NO_START_OFFSET, LeaderState, ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import Event
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.shares.dead_letters import DeadLetterQueues
    from kafkalite.shares.partition import StateStore


class SharePartitionTable:
    """The share partitions that are being read, at their current leaders."""

    def __init__(self, *, clock: Clock, config: BrokerConfig, history: EventHistory) -> None:
        self.clock = clock
        self._config = config
        self._history = history
        self._partitions: dict[str, dict[ShareKey, SharePartition]] = {}
        """By group, because they are removed with the group's last session; no group is empty."""
        self._loading: dict[ShareKey, tuple[int, Waiting[SharePartition]]] = {}
        """Partitions whose state is being read, with the leader epoch."""
        self._sessions: dict[int, ShareSessions] = {}
        self._is_enabled = False
        """Whether the cluster's level of `share.version` enables share groups."""

    # --- context of share partitions -----------------------------------------------------------

    def limits(self, group_id: str, leader: int) -> ShareLimits:
        """Return the current limits of a group at the node that leads a partition."""
        config = self._config.of_node(leader)
        return ShareLimits(
            max_deliveries=config.group_int(group_id, "share.delivery.count.limit"),
            max_records_in_flight=config.group_int(group_id, "share.partition.max.record.locks"),
            lock_duration_ms=config.group_int(group_id, "share.record.lock.duration.ms"),
            allows_renewal=bool(config.group_get(group_id, "share.renew.acknowledge.enable")),
        )

    def add_event(self, event: Event) -> None:
        """Store an event of a group."""
        self._history.add(event, self.clock.now_ms())

    # --- partitions ----------------------------------------------------------------------------

    def find(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition that is being read, or None."""
        return self._partitions.get(key.group_id, {}).get(key)

    def get_or_load(
        self,
        key: ShareKey,
        *,
        name: str,
        leader: int,
        leader_epoch: int,
        store: StateStore,
        dead_letter_queues: DeadLetterQueues,
        choose_start_offset: Callable[[], int],
    ) -> SharePartition | Waiting[SharePartition]:
        """Return a share partition; load its state from `store` if it is not being read yet.

        `choose_start_offset` returns the start offset if the state has none. Raises KafkaError when
        the state cannot be read; a Waiting may also be resolved with it.
        """
        existing = self.find(key)
        if existing is not None and existing.leader_epoch == leader_epoch:
            return existing
        loading = self._loading.get(key)
        if loading is not None and loading[0] == leader_epoch:
            return loading[1].map(lambda partition: partition)
        self.drop(key)

        def create(state: LeaderState) -> SharePartition:
            has_start_offset = state.start_offset != NO_START_OFFSET
            return SharePartition(
                key,
                name=name,
                leader=leader,
                leader_epoch=leader_epoch,
                context=self,
                store=store,
                dead_letter_queues=dead_letter_queues,
                state=state,
                start_offset=state.start_offset if has_start_offset else choose_start_offset(),
            )

        try:
            state = store.read_state(key, leader_epoch)
        except KafkaError as error:
            raise to_member_error(error) from error
        if isinstance(state, Waiting):
            return self._load_later(key, leader_epoch, state, create)
        return self._add(create(state))

    def _add(self, partition: SharePartition) -> SharePartition:
        self._partitions.setdefault(partition.key.group_id, {})[partition.key] = partition
        partition.resume_dead_letters()
        return partition

    def _load_later(
        self,
        key: ShareKey,
        leader_epoch: int,
        state: Waiting[LeaderState],
        create: Callable[[LeaderState], SharePartition],
    ) -> Waiting[SharePartition]:
        """Create a share partition when its state has arrived, once for all waiting requests."""
        shared: Waiting[SharePartition] = Waiting()
        self._loading[key] = leader_epoch, shared

        def is_current() -> bool:
            return self._loading.get(key, (0, None))[1] is shared

        def add(state: LeaderState) -> SharePartition:
            if not is_current():
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            del self._loading[key]
            return self._add(create(state))

        def refuse(error: Exception) -> SharePartition:
            if is_current():
                del self._loading[key]
            raise to_member_error(error) if isinstance(error, KafkaError) else error

        loaded = chain(state, add, refuse)
        assert isinstance(loaded, Waiting)
        loaded.then(shared.resolve)
        return shared.map(lambda partition: partition)

    def drop(self, key: ShareKey) -> None:
        """Remove a share partition; the next reader loads the stored state again."""
        self._loading.pop(key, None)
        group_partitions = self._partitions.get(key.group_id, {})
        partition = group_partitions.pop(key, None)
        if partition is not None:
            if not group_partitions:
                del self._partitions[key.group_id]
            partition.close()

    def drop_if_stale(self, key: ShareKey, error: KafkaError) -> None:
        """Remove a share partition if this error means that its state here is outdated."""
        if error.code in STALE_STATE_ERRORS:
            self.drop(key)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Remove partitions that were deleted or have another leader.

        All partitions and sessions are removed when share groups are disabled.
        """
        was_enabled, self._is_enabled = self._is_enabled, bool(image.features.get(SHARE_VERSION))
        if was_enabled and not self._is_enabled:
            self.stop()
            self._sessions.clear()
            return
        changed_topic_ids = {topic.topic_id for topic in (*delta.deleted, *delta.changed)}
        if not changed_topic_ids:
            return
        for key in [key for key in self._loading if key.topic_id in changed_topic_ids]:
            del self._loading[key]
        for key, partition in self._items():
            if key.topic_id in changed_topic_ids:
                topic = image.topics_by_id.get(key.topic_id)
                if topic is None or (
                    topic.partitions[key.partition].leader_epoch != partition.leader_epoch
                ):
                    self.drop(key)

    def stop(self) -> None:
        """Remove all share partitions."""
        self._loading.clear()
        for key, _ in self._items():
            self.drop(key)

    def _items(self) -> list[tuple[ShareKey, SharePartition]]:
        return [
            each
            for group_partitions in self._partitions.values()
            for each in group_partitions.items()
        ]

    # --- sessions ------------------------------------------------------------------------------

    def sessions(self, node_id: int) -> ShareSessions:
        """Return the share sessions of a node."""
        sessions = self._sessions.get(node_id)
        if sessions is None:
            sessions = self._sessions[node_id] = ShareSessions(
                lambda: self._config.node_int(node_id, "group.share.max.share.sessions")
            )
        return sessions

    def end_session(self, node_id: int, key: SessionKey) -> None:
        """End a session and release its records.

        If the release cannot be stored, the records become available when their locks expire.
        """
        for topic_id, index in self.sessions(node_id).end(key):
            share_key = ShareKey(key.group_id, topic_id, index)
            partition = self.find(share_key)
            if partition is not None:
                self._release(partition, key.member_id)

    def _release(self, partition: SharePartition, member_id: str) -> None:
        def on_end(outcome: object) -> None:
            if isinstance(outcome, KafkaError):
                self.drop_if_stale(partition.key, outcome)

        try:
            end = partition.release(member_id)
        except KafkaError as error:
            on_end(error)
        else:
            if end is not None:
                end.then(on_end)

    def end_sessions_of(self, node_id: int, connection: object, group_id: str) -> None:
        """End the sessions of a connection in a group.

        When the group has no session left, its share partitions are removed too. The next session
        begins with the stored state, which an administrator may have changed in the meantime.
        """
        for key in self.sessions(node_id).sessions_of_connection(connection, group_id):
            self.end_session(node_id, key)
        if not any(each.has_group(group_id) for each in self._sessions.values()):
            for share_key in tuple(self._partitions.get(group_id, ())):
                self.drop(share_key)
