"""Cluster: the nodes of one emulated cluster, and the state machines and logs that they share.

A start reads the metadata log first, then opens the partitions that it contains, then loads the
coordinators from internal topics.
"""

from __future__ import annotations

from errno import ENODATA
from typing import TYPE_CHECKING

from kafkalite.cluster.coordinators import Coordinators
from kafkalite.cluster.log_directories import DirectoryIds, LogDirectories
from kafkalite.cluster.node import Node, NodeState, UnreadAnswers
from kafkalite.cluster.node_control import NodeControl
from kafkalite.cluster.outbox import Outbox
from kafkalite.cluster.periodic_elections import PeriodicElections
from kafkalite.cluster.replication import Replication
from kafkalite.config.broker import SECRET_KEY
from kafkalite.config.log_config import LogConfig
from kafkalite.config.topic import topic_log_config
from kafkalite.coordinator.contract import Event, UnreadableLogError
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.coordinator.group_commit import CommitWindow
from kafkalite.groups.share.intents import InitializeShareState
from kafkalite.metadata.brokers import NoNodesError, UsedControllerIdError
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.creation import BROKER_DEFAULT, NewTopic
from kafkalite.metadata.features import UnsupportedLevelError
from kafkalite.metadata.image import NO_LEADER, MetadataDelta, PartitionImage
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog
from kafkalite.partitions.partition import Partition
from kafkalite.partitions.table import PartitionTable
from kafkalite.ports.texts import count_text
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ONE_UUID, uuid_to_text
from kafkalite.storage.data_directory import META_FILE
from kafkalite.transactions.intents import WriteMarkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.cluster.node import Deliver, Endpoint
    from kafkalite.cluster.pace import Pace
    from kafkalite.cluster.state import ClusterState, LaggingReplica, UncommittedRecords
    from kafkalite.cluster.token_expiration import TokenExpiration
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.partitions.table import Truncation
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.waiting import Waiting
    from kafkalite.shares.coordinator import ShareCoordinator
    from kafkalite.shares.partition_table import SharePartitionTable
    from kafkalite.storage.data_directory import DataDirectory
    from kafkalite.storage.log import Log
    from kafkalite.telemetry.metrics import PushedMetrics
    from kafkalite.transactions.coordinator import TransactionCoordinator

METADATA_LEADER_EPOCH = 1
"""The epoch of the metadata log: the controllers of a cluster hold no elections."""
_MAX_SESSIONS = "max.incremental.fetch.session.cache.slots"
_METADATA_LOG_CONFIG = LogConfig(max_message_bytes=2**31 - 1)
"""One batch contains all records of a metadata change, so its size has no other limit."""


class TopicError(ValueError):
    """A topic that is required at the start cannot be created; the text is one line."""


class Cluster:
    """One emulated cluster, loaded from its directory; a process may have several."""

    cut_links: frozenset[tuple[int, int]] = frozenset()
    """Links that are cut: (node that sends, node that receives)."""

    def __init__(
        self,
        *,
        cluster_id: str,
        directory: DataDirectory,
        clock: Clock,
        entropy: Entropy,
        config: BrokerConfig,
        node_ids: Sequence[int],
        on_truncation: Callable[[Truncation], None] | None = None,
        state: ClusterState | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Load everything from `directory`; `on_truncation` receives truncations by new leaders.

        `directory` has the files of `state`, if that is given: then nothing is written, and the
        nodes are those of the state. `pace` has the delays of the cluster; None: there are none.

        The cluster has the nodes in `node_ids`, except those that were removed, and all nodes that
        were added before the last stop. Raises OSError, UnreadableLogError if the metadata log is
        damaged, NoNodesError if all nodes were removed, and UnsupportedLevelError if the release
        does not support a feature level; the directory then remains as it was.
        """
        self.id = cluster_id
        self.clock = clock
        self.entropy = entropy
        self.config = config
        self.pace = pace
        self.deliver: Deliver | None = None
        self.commit_window = CommitWindow()
        self.unread_answers = UnreadAnswers()
        self.nodes: dict[int, Node] = {}
        self._on_truncation = on_truncation
        self._subscribers: list[Callable[[MetadataImage, MetadataDelta], None]] = []
        self._load(directory, node_ids, state)
        self._load_coordinators(self.metadata.image)

    def _load(
        self, directory: DataDirectory, node_ids: Sequence[int], state: ClusterState | None
    ) -> None:
        """Load everything from `directory`, into new parts; see `__init__`."""
        config = self.config
        self.directory_ids = DirectoryIds(self.id, directory.properties)
        self.log_directories = LogDirectories(self, self.directory_ids, directory)
        self.history = EventHistory() if state is None else state.history.copy()
        self._pushed_metrics: PushedMetrics | None = None
        self._state = state
        controller_id = config.controller_id
        metadata_log = open_metadata_log(
            directory, self.clock, node_ids[0] if controller_id is None else controller_id
        )
        self.metadata_leader_epoch = metadata_log.leader_epoch
        self.last_controller_id = NO_LEADER
        """The node that acts, or acted last, as controller; NO_LEADER before the first one."""
        self.partitions = self._new_partitions(directory, metadata_log.log)
        self.metadata = self._new_metadata(metadata_log, ignores_case=directory.ignores_case)
        if state is None:
            racks = {each: config.node_str_or_none(each, "broker.rack") for each in node_ids}
            image = self._start_metadata(racks, directory)
        else:
            image = state.image
            self.metadata.resume(image)
        self.partitions.open(image)
        self.outbox = Outbox(self.clock)
        self.coordinators = Coordinators(self, is_restored=state is not None)
        self._add_nodes(image)
        self.replication = self._new_replication()
        self.node_control = NodeControl(self)
        self.elections = PeriodicElections(self.clock, config, self.metadata)

    def _add_nodes(self, image: MetadataImage) -> None:
        """Add the nodes of an image, or restart those that exist; remove the others."""
        for node_id in self.nodes.keys() - image.brokers.keys():
            del self.nodes[node_id]
            self.config.forget_node(node_id)
        for node_id, broker in sorted(image.brokers.items()):
            node = self.nodes.get(node_id)
            if node is None:
                self.nodes[node_id] = Node(node_id, self, image, broker.rack, broker.added)
            else:
                node.restart(image, broker.rack, broker.added)
            if broker.added is not None:
                self.config.configure_node(node_id, broker.added.settings)

    def restore(self, directory: DataDirectory, state: ClusterState) -> None:
        """Continue from a state, whose files are in `directory`; call `open` afterwards.

        Requests that wait are answered first, as at a stop. Nodes that are in both states are the
        same objects, for their clients; everything else is loaded again. Producer ids that were
        returned already are not returned again.
        """
        producer_ids = self.partitions.producer_ids
        self.stop()
        self.metadata.close()
        self._load(directory, [min(state.image.brokers)], state)
        self.partitions.producer_ids.begin_after(producer_ids)
        self._load_coordinators(state.image)
        for listener in self._subscribers:
            self.metadata.subscribe(listener)
            listener(state.image, MetadataDelta())

    def subscribe(self, listener: Callable[[MetadataImage, MetadataDelta], None]) -> None:
        """Call `listener(image, delta)` after each change of the metadata, and after a restore."""
        self._subscribers.append(listener)
        self.metadata.subscribe(listener)

    @property
    def pushed_metrics(self) -> PushedMetrics:
        """The metrics that clients have pushed to the nodes."""
        if self._pushed_metrics is None:
            from kafkalite.telemetry.metrics import PushedMetrics  # noqa: PLC0415 - rarely used

            self._pushed_metrics = PushedMetrics()
        return self._pushed_metrics

    def forget_pushed_metrics(self) -> None:
        """Remove the metrics that clients have pushed."""
        self._pushed_metrics = None

    def _new_metadata(self, log: Partition, *, ignores_case: bool) -> MetadataController:
        return MetadataController(
            log=PartitionCoordinatorLog(log),
            config=self.config,
            clock=self.clock,
            entropy=self.entropy,
            directories_of=self.log_directories.ids,
            ignores_case=ignores_case,
        )

    def _start_metadata(
        self, racks: Mapping[int, str | None], directory: DataDirectory
    ) -> MetadataImage:
        try:
            self.metadata.start(racks)
        except (UnreadableLogError, NoNodesError, UsedControllerIdError, UnsupportedLevelError):
            directory.restore_clean_shutdown_marker()
            raise
        return self.metadata.image

    def _load_coordinators(self, image: MetadataImage) -> None:
        """Load the coordinators from their logs, and subscribe all parts to the metadata.

        Intents that were not completed before the last stop wait until `open`, because they need
        other coordinators and other nodes.
        """
        self.coordinators.on_image(image, MetadataDelta())
        self.metadata.subscribe(self._update_nodes)
        self.metadata.subscribe(self.replication.begin_change)
        self.metadata.subscribe(self.partitions.apply)
        self.metadata.subscribe(self.replication.on_image)
        self.metadata.subscribe(self.coordinators.on_image)
        self.metadata.subscribe(self.elections.on_image)
        self.metadata.subscribe(self.log_directories.on_image)
        self.token_expiration = self._new_token_expiration()
        if self.token_expiration is not None:
            self.metadata.subscribe(self.token_expiration.on_image)
        self.outbox.assign(InitializeShareState, self._initialize_share_state)
        self.outbox.assign(WriteMarkers, self._write_markers)

    def _new_token_expiration(self) -> TokenExpiration | None:
        """Return the removal of expired delegation tokens, if there can be tokens."""
        if not self.config.str_or_none(SECRET_KEY):
            return None
        from kafkalite.cluster.token_expiration import TokenExpiration  # noqa: PLC0415 - rarely used

        return TokenExpiration(self.clock, self.config, self.metadata)

    def _update_nodes(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if image.active_brokers:
            self.last_controller_id = image.controller_id
        for node in self.nodes.values():
            node.on_image(image, delta)

    def open(self, deliver: Deliver) -> None:
        """Let nodes send each other requests by `deliver`, and carry out the loaded intents.

        Called before the first client is served, and after `restore`.
        """
        self.deliver = deliver
        for node in self.nodes.values():
            node.state = NodeState.RUNNING
        if self._state is not None:
            self._apply_nodes(self._state)
        self.replication.open()
        self.log_directories.open()
        self.outbox.open()
        self.elections.start()
        if self.token_expiration is not None:
            self.token_expiration.start()

    def _apply_nodes(self, state: ClusterState) -> None:
        """Let nodes and replicas be as in a state."""
        self._state = None
        for stopped in state.stopped_nodes:
            node = self.nodes[stopped.node_id]
            node.state, node.image = NodeState.STOPPED, stopped.image
            node.has_stale_metadata = stopped.has_stale_metadata
            node.was_shut_down = stopped.was_shut_down
        for impaired in state.impaired_nodes:
            impaired.apply_to(self.nodes[impaired.node_id])
        self.node_control.continue_isolation(
            [each.node_id for each in state.impaired_nodes if each.is_isolated]
        )
        parts: Iterable[LaggingReplica | UncommittedRecords] = (
            *state.lagging_replicas, *state.uncommitted
        )  # fmt: skip
        for each in parts:
            topic = self.partitions.topic_by_id(each.topic_id)
            partition = None if topic is None else topic.partition(each.partition)
            if partition is not None:
                each.apply_to(partition)

    # The first intent of each type replaces its handler: the modules of the final handlers import
    # many messages, which a start does not need.

    def _initialize_share_state(self, intent: InitializeShareState) -> Waiting[None] | None:
        from kafkalite.cluster.share_persister import ShareStateInitializer  # noqa: PLC0415

        return ShareStateInitializer(self.nodes, self.groups, self.outbox).initialize(intent)

    def _write_markers(self, intent: WriteMarkers) -> None:
        from kafkalite.cluster.transaction_markers import TransactionMarkers  # noqa: PLC0415

        TransactionMarkers(self.nodes, self.transactions, self.outbox, self.pace).write(intent)

    @property
    def controller_config(self) -> BrokerConfig:
        """The settings of the controller, or of the node that acts as controller."""
        return self.config.of_controller(self.metadata.image.active_brokers)

    def _new_partitions(self, directory: DataDirectory, metadata_log: Log) -> PartitionTable:
        return PartitionTable(
            directory=directory,
            other_logs={(METADATA_TOPIC, 0): metadata_log},
            clock=self.clock,
            entropy=self.entropy,
            log_config=self._log_config,
            has_own_defaults=self.config.has_own_topic_defaults,
            max_fetch_sessions=lambda node_id: self.config.node_int(node_id, _MAX_SESSIONS),
            on_truncation=self._report_truncation,
        )

    def _log_config(self, overrides: Mapping[str, str], node_id: int | None) -> LogConfig:
        config = self.config if node_id is None else self.config.of_node(node_id)
        return topic_log_config(overrides, config)

    def _report_truncation(self, truncation: Truncation) -> None:
        """Add the truncation of a partition to the history of its topic, and report it."""
        partition = f"{truncation.topic}-{truncation.partition}"
        count = truncation.removed_offsets
        verb, pronoun = ("was", "it") if count == 1 else ("were", "them")
        event = Event(
            truncation.topic,
            "truncated",
            f"{count_text(count, 'offset')} from {truncation.end_offset} on {verb} removed from "
            f"{partition}: node {truncation.leader}, its leader in epoch "
            f"{truncation.leader_epoch}, does not "
            f"have {pronoun}",
            truncation._asdict(),
            Entity.TOPIC,
        )
        self.history.add(event, self.clock.now_ms())
        if self._on_truncation is not None:
            self._on_truncation(truncation)

    def _new_replication(self) -> Replication:
        return Replication(
            clock=self.clock,
            config=self.config,
            metadata=self.metadata,
            partitions=self.partitions,
            nodes=self.nodes,
            on_truncation=self._report_truncation,
        )

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        return self.coordinators.groups

    @property
    def shares(self) -> ShareCoordinator:
        """The share coordinator."""
        return self.coordinators.shares

    @property
    def share_partitions(self) -> SharePartitionTable:
        """The share partitions that nodes lead."""
        return self.coordinators.share_partitions

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        return self.coordinators.transactions

    def endpoints(self, listener: str) -> Sequence[Endpoint]:
        """Return the address of every node for a listener."""
        return [
            node.endpoints[listener] for node in self.nodes.values() if listener in node.endpoints
        ]

    def create_missing_topics(self, required: Mapping[str, int]) -> None:
        """Create those of the `required` topics (name → partitions) that do not exist.

        Raises TopicError if one cannot be created, or exists with another number of partitions.
        """
        topics = self.metadata.image.topics
        for name, partitions in required.items():
            if name in topics and len(topics[name].partitions) != partitions:
                found = count_text(len(topics[name].partitions), "partition")
                raise TopicError(f"topic {name} exists with {found}, not with {partitions}")
        missing = [
            NewTopic(name=name, partitions=partitions, replication_factor=BROKER_DEFAULT)
            for name, partitions in required.items()
            if name not in topics
        ]
        if not missing:
            return
        try:
            creations = self.metadata.create_topics(missing)
        except KafkaError as error:
            raise TopicError(f"cannot create these topics: {error.message}") from error
        for creation in creations:
            if creation.error is not None:
                reason = creation.error.message or creation.error.code.name
                raise TopicError(f"cannot create topic {creation.name}: {reason}")

    def stop(self) -> None:
        """Answer all waiting requests and stop all timers; the logs remain open."""
        self.partitions.end_waits()
        self.elections.close()
        if self.token_expiration is not None:
            self.token_expiration.close()
        self.replication.close()
        self.node_control.close()
        self.outbox.close()
        if self.pace is not None:
            self.pace.close()
        self.log_directories.stop()
        for node in self.nodes.values():
            node.stop()
        self.coordinators.stop()


def open_metadata_log(directory: DataDirectory, clock: Clock, leader: int) -> Partition:
    """Return the metadata log as a partition, as in Kafka."""
    log = directory.open_log(
        METADATA_TOPIC,
        0,
        _METADATA_LOG_CONFIG,
        now_ms=clock.now_ms(),
        topic_id=uuid_to_text(ONE_UUID),
        is_internal=True,
    )
    if (
        directory.was_initialized
        and not log.segments
        and directory.has_files_of_topics(METADATA_TOPIC)
    ):
        directory.restore_clean_shutdown_marker()
        raise OSError(
            ENODATA,
            "the metadata log is missing, but there are records of partitions; restore it from a "
            f"copy, or delete {META_FILE} in the data directory: the next start then begins a new "
            "cluster, and renames the directories of the lost topics",
            log.directory,
        )
    if log.start_offset:
        directory.restore_clean_shutdown_marker()
        raise OSError(
            ENODATA,
            f"the log begins at offset {log.start_offset}: the earlier records are in a snapshot "
            "of Kafka, which cannot be read",
            log.directory,
        )
    # A log that Kafka has written may have later epochs; epochs in a log do not decrease.
    epochs = [epoch for epoch, _ in log.epochs.entries]
    image = PartitionImage(
        index=0,
        leader=leader,
        leader_epoch=max(epochs, default=METADATA_LEADER_EPOCH),
        partition_epoch=0,
        replicas=(leader,),
        isr=(leader,),
    )
    return Partition(METADATA_TOPIC, ONE_UUID, image, log, is_internal=True)
