"""Node: one emulated broker, as request handlers and other nodes see it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.cluster.coordinators import TOPIC_BY_PART
from kafkalite.cluster.waiting_budget import (
    MAX_FORWARDED_BYTES,
    MAX_VERIFIED_BYTES,
    WaitingBudget,
)
from kafkalite.config.broker import NO_SHARE_PERSISTER, SHARE_PERSISTER
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.dead_letters import DeadLetterWriter
    from kafkalite.cluster.share_persister import NoSharePersister, SharePersister
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.metadata.image import AddedNode, MetadataDelta, MetadataImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.clock import Timer
    from kafkalite.protocol.api_keys import ApiKey
    from kafkalite.shares.coordinator import ShareCoordinator
    from kafkalite.shares.partition_table import SharePartitionTable
    from kafkalite.telemetry.instances import Instances
    from kafkalite.transactions.coordinator import TransactionCoordinator


class Endpoint(NamedTuple):
    """The address of one node for clients of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class WarnAboutClient(Protocol):
    """Writes a warning about a client to the log; repeated warnings are only counted."""

    def __call__(self, host: str, kind: str, event: str, **fields: object) -> None:
        """Warn about the client at `host`; warnings of the same kind are counted together."""


def ignore_warning(host: str, kind: str, event: str, **fields: object) -> None:
    """Do nothing: there is no log."""


class Deliver(Protocol):
    """Lets a node answer a request of another node; see `gateway.inter_broker`."""

    def __call__(self, sender: Node, receiver: Node, key: ApiKey, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        """Return the response or a Waiting; raises KafkaError NETWORK_EXCEPTION if it is lost."""


class UnreadAnswers:
    """The size of all answers in memory that clients have not read."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class NodeState(Enum):
    """The states of a node; it receives calls from other nodes only while it is RUNNING."""

    STARTING = "starting"
    RUNNING = "running"
    ISOLATED = "isolated"
    """Clients reach the node, but no other node does."""
    STOPPED = "stopped"


_WITHOUT_METADATA = frozenset((NodeState.ISOLATED, NodeState.STOPPED))
"""States in which a node does not receive changes of the metadata."""


class Node:
    """One broker of a cluster.

    Handlers read the parts of the cluster as attributes of the node, which saves a lookup. `image`
    is the node's own view of the metadata, replaced when the metadata changes. `added` is None for
    a node that was not added while the cluster ran. `endpoints` are by the names of listeners.
    """

    __slots__ = (
        "_connected",
        "_connection_waits",
        "_dead_letter_queues",
        "_received_calls",
        "_share_persister",
        "_telemetry_instances",
        "_timers",
        "added",
        "clock",
        "cluster",
        "config",
        "endpoints",
        "entropy",
        "forwarding_budget",
        "groups",
        "has_stale_metadata",
        "history",
        "id",
        "image",
        "is_metadata_delayed",
        "is_metadata_frozen",
        "is_replication_paused",
        "metadata_fetched_ms",
        "partitions",
        "rack",
        "share_partitions",
        "shares",
        "state",
        "transactions",
        "unread_answers",
        "verification_budget",
        "warn_about_client",
        "was_shut_down",
    )  # fmt: skip

    groups: GroupCoordinator
    shares: ShareCoordinator
    share_partitions: SharePartitionTable
    transactions: TransactionCoordinator

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a coordinator at its first use, which may create it."""
            if name not in TOPIC_BY_PART:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            part = getattr(self.cluster, name)
            setattr(self, name, part)
            return part

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        image: MetadataImage,
        rack: str | None = None,
        added: AddedNode | None = None,
    ) -> None:
        self.id = node_id
        self.cluster = cluster
        self.endpoints: dict[str, Endpoint] = {}
        self.warn_about_client: WarnAboutClient = ignore_warning
        self.restart(image, rack, added)

    def restart(
        self, image: MetadataImage, rack: str | None = None, added: AddedNode | None = None
    ) -> None:
        """Have the state of a node that starts, with the present parts of the cluster.

        The addresses remain, and so do the clients that refer to this node.
        """
        cluster = self.cluster
        self.rack = rack
        self.added = added
        self.was_shut_down = False
        """Whether the stopped node has left the cluster by a controlled shutdown."""
        self.state = NodeState.STARTING
        self.image = image
        self.is_metadata_frozen = False
        """Whether the node keeps its present image although the metadata changes."""
        self.is_metadata_delayed = False
        """Whether the node receives the present changes of the metadata as late as a real Kafka."""
        self.has_stale_metadata = False
        """Whether the metadata has changed since the node received its image."""
        self.metadata_fetched_ms: int | None = None
        """When the node last received the metadata; None while it receives each change."""
        self.is_replication_paused = False
        """Whether the replicas of the node do not follow their leaders."""
        self.clock = cluster.clock
        self.entropy = cluster.entropy
        self.config = cluster.config.of_node(self.id)
        self.partitions = cluster.partitions
        for name in TOPIC_BY_PART:
            with suppress(AttributeError):
                delattr(self, name)
        self.history = cluster.history
        """Events of groups and transactional ids; handlers add refusals by `gateway.refusals`."""
        self.unread_answers = cluster.unread_answers
        self.forwarding_budget = WaitingBudget(MAX_FORWARDED_BYTES)
        self.verification_budget = WaitingBudget(MAX_VERIFIED_BYTES)
        self._dead_letter_queues: DeadLetterWriter | None = None
        self._share_persister: SharePersister | NoSharePersister | None = None
        self._telemetry_instances: Instances | None = None
        self._timers: dict[Waiting[Any], Timer] = {}
        """Pending call or delay → the timer that limits its duration."""
        self._received_calls: dict[Waiting[Any], Callable[[KafkaError], None]] = {}
        """Pending call of another node → a function that ends its wait for the response."""
        self._connection_waits: dict[Waiting[None], None] = {}
        """Pending waits for the connection to the other nodes, in order."""
        self._connected: deque[Waiting[None]] = deque()
        """Waits for the connection that ended, and are resolved one by one."""

    @property
    def is_reachable(self) -> bool:
        """Whether the node calls other nodes and answers their calls."""
        return self.state is NodeState.RUNNING

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Replace the node's image of the metadata, unless the node does not receive it."""
        del delta
        if self.is_metadata_frozen or self.is_metadata_delayed or self.state in _WITHOUT_METADATA:
            self.has_stale_metadata = True
            return
        self.has_stale_metadata = False
        self.image = image

    def known_endpoints(
        self, listener: str, *, include_fenced_nodes: bool = False
    ) -> list[Endpoint]:
        """Return the addresses of the nodes that are active in this node's image."""
        brokers = self.image.brokers
        return [
            endpoint
            for endpoint in self.cluster.endpoints(listener)
            if (broker := brokers.get(endpoint.node_id)) is not None
            and (include_fenced_nodes or not broker.is_fenced)
        ]

    def set_endpoint(self, listener: str, host: str, port: int) -> Endpoint:
        """Set the node's address for a listener, and return it as an endpoint."""
        endpoint = self.endpoints[listener] = Endpoint(self.id, host, port, self.rack)
        return endpoint

    # Calls to other nodes

    @property
    def share_persister(self) -> SharePersister | NoSharePersister:
        """Reads and writes share-group state for this node."""
        if self._share_persister is None:
            from kafkalite.cluster.share_persister import NoSharePersister, SharePersister  # noqa: PLC0415 - rarely used

            is_stored = self.config.str(SHARE_PERSISTER) not in ("", NO_SHARE_PERSISTER)
            self._share_persister = SharePersister(self) if is_stored else NoSharePersister()
        return self._share_persister

    @property
    def telemetry_instances(self) -> Instances:
        """The client instances that push metrics to this node."""
        if self._telemetry_instances is None:
            from kafkalite.telemetry.instances import Instances  # noqa: PLC0415 - rarely used

            self._telemetry_instances = Instances(
                self.config.int("telemetry.max.bytes"), self.entropy.uuid
            )
        return self._telemetry_instances

    @property
    def dead_letter_queues(self) -> DeadLetterWriter:
        """Writes the dead letters of the share partitions that this node leads."""
        if self._dead_letter_queues is None:
            from kafkalite.cluster.dead_letters import DeadLetterWriter  # noqa: PLC0415 - rarely used

            self._dead_letter_queues = DeadLetterWriter(self)
        return self._dead_letter_queues

    def send(self, receiver_id: int, key: ApiKey, request: Any) -> Any:  # noqa: ANN401 - see below
        """Return another node's response to a request, or a Waiting for it.

        Request and response have the structure of the latest version; they are not encoded. The
        wait for a response is limited by `request.timeout.ms`. Raises KafkaError, directly or
        through the Waiting: NETWORK_EXCEPTION if the node cannot be reached or closes the
        connection or stops, REQUEST_TIMED_OUT if it does not answer.
        """
        receiver = self.cluster.nodes.get(receiver_id)
        deliver = self.cluster.deliver
        if deliver is None or receiver is None or not (self.is_reachable and receiver.is_reachable):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"Node {receiver_id} cannot be reached.")
        cut, answer = self.cluster.cut_links, None
        is_delivered = (self.id, receiver_id) not in cut
        if is_delivered:
            answer = deliver(self, receiver, key, request)
        if not is_delivered or (receiver_id, self.id) in cut:
            answer = Waiting()  # never arrives
        if not isinstance(answer, Waiting):
            return answer
        response: Waiting[Any] = Waiting(on_abandon=answer.abandon)
        timeout = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Node {receiver_id} did not answer.")
        self._resolve_after(response, self.config.int("request.timeout.ms"), timeout)
        receiver.watch_call(response, lambda error: self._resolve(response, error))
        answer.then(lambda value: self._resolve(response, value))
        return response

    def exchanges_bytes_with(self, node_id: int) -> bool:
        """Return whether the link to another node is cut in no direction."""
        cut = self.cluster.cut_links
        return not cut or ((self.id, node_id) not in cut and (node_id, self.id) not in cut)

    def watch_call(self, response: Waiting[Any], fail: Callable[[KafkaError], None]) -> None:
        """Call `fail` if other nodes cannot reach this one any more before it has responded."""
        self._received_calls[response] = fail

        def forget(_: object) -> None:
            self._received_calls.pop(response, None)

        response.then(forget)

    def delay(self, duration_ms: int) -> Waiting[None]:
        """Return a Waiting that resolves after `duration_ms`, or is refused if the node stops."""
        waiting: Waiting[None] = Waiting()
        self._resolve_after(waiting, duration_ms, None)
        return waiting

    def wait_for_connection(self, timeout_ms: int) -> Waiting[None]:
        """Return a Waiting that resolves when the isolated node is connected again.

        It is refused with REQUEST_TIMED_OUT after `timeout_ms`, or with NETWORK_EXCEPTION if the
        node stops.
        """
        waiting: Waiting[None] = Waiting()
        waits = self._connection_waits
        waits[waiting] = None
        waiting.then(lambda _: waits.pop(waiting, None))
        self._resolve_after(waiting, timeout_ms, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        return waiting

    def end_isolation(self) -> None:
        """Resolve the waits for the connection to the other nodes.

        Other clients are served in between, because requests are handled then.
        """
        is_resolving = bool(self._connected)
        for waiting in self._connection_waits:
            timer = self._timers.pop(waiting, None)
            if timer is not None:
                timer.cancel()
                self._connected.append(waiting)
        if self._connected and not is_resolving:
            self.clock.call_at(self.clock.now_ms(), self._resolve_connected)

    def _resolve_connected(self) -> None:
        self._connected.popleft().resolve(None)
        if self._connected:
            self.clock.call_at(self.clock.now_ms(), self._resolve_connected)

    def stop(self) -> None:
        """Answer no further calls; pending calls to other nodes fail."""
        self.state = NodeState.STOPPED
        self._telemetry_instances = None
        self.fail_calls()

    def fail_calls(self) -> None:
        """Let the pending calls to and from other nodes fail: they cannot be reached any more."""
        lost = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The node has stopped.")
        for waiting in tuple(self._timers):
            self._resolve(waiting, lost)
        for fail in tuple(self._received_calls.values()):
            fail(lost)

    def _resolve_after(self, waiting: Waiting[Any], duration_ms: int, result: object) -> None:
        """Resolve `waiting` with `result` after `duration_ms`, unless it is resolved before."""
        deadline_ms = self.clock.now_ms() + duration_ms
        self._timers[waiting] = self.clock.call_at(
            deadline_ms, lambda: self._resolve(waiting, result)
        )

    def _resolve(self, waiting: Waiting[Any], result: object) -> None:
        timer = self._timers.pop(waiting, None)
        if timer is not None:
            timer.cancel()
            waiting.resolve(result)

    # Partitions

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this node leads.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if the node has no replica,
        NOT_LEADER_OR_FOLLOWER if it is a follower, or a former leader that does not know the next
        one, KAFKA_STORAGE_ERROR if the log is offline.
        """
        hosted_topic = self.partitions.topic(topic)
        partition_image = self.image.partition(topic, index)
        partition = None if hosted_topic is None else hosted_topic.partition(index)
        if partition is None or partition_image is None or self.id not in partition_image.replicas:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition_image.leader != self.id or partition.leader != self.id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition
