"""Commands to a running broker, as data, and the functions that carry them out.

The HTTP endpoint, the command line and `kafkalite.testing` create the same commands. The
`perform_*` functions carry them out on the event loop that serves the broker.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.coordinator.event_history import MAX_ENTRIES
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.addresses import AddressError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Node
    from kafkalite.cluster.node_control import NodeControl
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.gateway.fault_rules import Rule
    from kafkalite.gateway.faults import FaultState
    from kafkalite.server.broker import Broker
    from kafkalite.telemetry.metrics import ClientMetrics
    from kafkalite.transactions.state import Transaction

MAX_EXPLAIN_ENTRIES = 10_000
DEFAULT_EXPLAIN_ENTRIES = 2 * MAX_ENTRIES

REMOVED = "removed"
"""State of a node in the result of RemoveNode."""

REAL, MANUAL, ACCELERATED = "real", "manual", "accelerated"

_LOOP_ITERATIONS = 3
"""Iterations of the event loop in which the answers that a command triggered are written."""


class CommandError(ValueError):
    """A command that cannot be carried out; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class ShowClock:
    """Return the time."""


@dataclass(frozen=True, slots=True)
class AdvanceClock:
    """Move time forward by `ms`; run all timers that are due on the way, in order."""

    ms: int


@dataclass(frozen=True, slots=True)
class SetClock:
    """Move time forward to `now_ms`; run all timers that are due on the way, in order."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class RunClock:
    """Let time run `rate` times as fast as the system clock; 0 stops it, 1 is real time."""

    rate: float


@dataclass(frozen=True, slots=True)
class Explain:
    """Return the history of a group, a transactional id, a topic or a client, or of all of them.

    The history has the latest `limit` entries, with reasons. A client is an address, such as
    "127.0.0.1". Raises CommandError if more than one of the four is given.
    """

    group: str | None = None
    limit: int = DEFAULT_EXPLAIN_ENTRIES
    transactional_id: str | None = None
    topic: str | None = None
    client: str | None = None

    def __post_init__(self) -> None:
        if len(self.subjects()) > 1:
            raise CommandError(
                "explain takes one group, one transactional id, one topic or one client"
            )

    def subjects(self) -> Sequence[tuple[SubjectKind, str]]:
        """Return what is asked for: at most one subject; all of them if there is none."""
        names = {
            SubjectKind.GROUP: self.group,
            SubjectKind.TRANSACTIONAL_ID: self.transactional_id,
            SubjectKind.TOPIC: self.topic,
            SubjectKind.CLIENT: self.client,
        }
        return [(kind, name) for kind, name in names.items() if name is not None]


@dataclass(frozen=True, slots=True)
class ShowClientMetrics:
    """Return the metrics that clients have pushed; of all, or of those with this client id."""

    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListFaults:
    """Return all faults."""


@dataclass(frozen=True, slots=True)
class AddFault:
    """Apply a rule to the requests that arrive from now on."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class RemoveFault:
    """Remove the fault with this id."""

    fault_id: str


@dataclass(frozen=True, slots=True)
class ClearFaults:
    """Remove all faults."""


@dataclass(frozen=True, slots=True)
class ListNodes:
    """Return the states of all nodes."""


@dataclass(frozen=True, slots=True)
class ShowNode:
    """Return the state of one node."""

    node_id: int


@dataclass(frozen=True, slots=True)
class AddNode:
    """Add a node with these settings; without an id, it gets the one after the largest id."""

    node_id: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Remove a node without replicas; a running one is shut down before."""

    node_id: int


@dataclass(frozen=True, slots=True)
class SetNodeState:
    """Stop, start or isolate a node: the state is `running`, `isolated` or `stopped`.

    With `controlled`, other nodes lead the partitions of the node before it stops.
    """

    node_id: int
    state: str
    controlled: bool = False

    def __post_init__(self) -> None:
        if self.controlled and self.state != NodeState.STOPPED.value:
            raise CommandError(f"only a stop can be controlled, not the state {self.state[:40]!r}")


@dataclass(frozen=True, slots=True)
class SetNodeMetadata:
    """Let a node keep its present metadata (`frozen`), or receive all changes (`live`)."""

    node_id: int
    metadata: str


@dataclass(frozen=True, slots=True)
class SetNodeReplication:
    """Let the replicas of a node stay where they are (`paused`), or follow (`running`)."""

    node_id: int
    replication: str


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Make a replica the leader of a partition.

    Nothing changes if it is the leader already. Without `unclean`, the replica must be in sync. An
    unclean election removes all records that the replica does not have.
    """

    topic: str
    partition: int
    leader: int
    unclean: bool = False


NodeChange = SetNodeState | SetNodeMetadata | SetNodeReplication

NodeCommand = ListNodes | ShowNode | AddNode | RemoveNode | NodeChange

FaultCommand = ListFaults | AddFault | RemoveFault | ClearFaults

ClockCommand = ShowClock | AdvanceClock | SetClock | RunClock


class ClockState(NamedTuple):
    """The time, and the rate at which it runs."""

    now_ms: int
    rate: float

    @property
    def mode(self) -> str:
        """REAL, MANUAL or ACCELERATED; the last means any rate but 0 and 1."""
        modes: dict[float, str] = {0: MANUAL, 1: REAL}
        return modes.get(self.rate, ACCELERATED)


class NodeStatus(NamedTuple):
    """The state of one node, and the number of partitions that it leads."""

    node_id: int
    state: str
    """`running`, `isolated` or `stopped`; `removed` in the result of RemoveNode."""
    is_registered: bool
    """Whether the controller knows the node; UnregisterBroker ends that until the next start."""
    metadata: str
    """`live`, `frozen`, or `stale` if the node misses changes because it is isolated or stopped."""
    replication: str
    """`running` or `paused`."""
    led_partitions: int
    rack: str | None
    listeners: Mapping[str, str]
    """Listener name → advertised address."""


class LeaderStatus(NamedTuple):
    """Leader, epoch, replicas and in-sync replicas of a partition, and the end of its log."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    end_offset: int
    truncated_records: int
    """Number of offsets that the change of the leader removed."""


class Explanation(NamedTuple):
    """Entries of the history, oldest first, and all ids that have a history."""

    now_ms: int
    groups: Sequence[str]
    transactional_ids: Sequence[str]
    topics: Sequence[str]
    clients: Sequence[str]
    entries: Sequence[Entry]


class ClientMetricsStatus(NamedTuple):
    """The metrics of clients, the client that pushed last at the end."""

    now_ms: int
    problem: str | None
    """Why metrics are missing: the text says what to install; None if none are missing."""
    clients: Sequence[ClientMetrics]


def rate_of(mode: str, rate: float | None = None) -> float:
    """Return the rate of a mode; raises CommandError if the mode or `rate` is invalid."""
    rates: dict[str, float] = {REAL: 1, MANUAL: 0}
    if mode == ACCELERATED:
        if rate is None:
            raise CommandError("an accelerated clock needs a rate, such as 60")
        if rate == 0:
            raise CommandError("a clock at rate 0 does not run: use manual")
        return rate
    if mode not in rates:
        raise CommandError(
            f"{mode[:40]!r} is not a mode: the modes are real, manual and accelerated"
        )
    if rate is not None and rate != rates[mode]:
        raise CommandError(f"a {mode} clock has rate {rates[mode]:g}: leave out the rate {rate:g}")
    return rates[mode]


async def perform_clock_command(broker: Broker, command: ClockCommand) -> ClockState:
    """Carry out a command and return the new time; raises CommandError if that is impossible.

    All timers that were due have run when this returns, and the answers that they triggered have
    been written.
    """
    clock = adjustable_clock(broker)
    try:
        if isinstance(command, AdvanceClock):
            clock.advance(command.ms)
        elif isinstance(command, SetClock):
            _set_time(clock, command.now_ms)
        elif isinstance(command, RunClock):
            clock.run(command.rate)
    except ValueError as error:
        raise CommandError(str(error)) from error
    state = ClockState(clock.now_ms(), clock.rate)
    await _write_answers()
    return state


async def _write_answers() -> None:
    for _ in range(_LOOP_ITERATIONS):
        await asyncio.sleep(0)


def _set_time(clock: AdjustableClock, target_ms: int) -> None:
    from kafkalite.control.times import iso_of  # noqa: PLC0415 - rarely used

    now_ms = clock.now_ms()
    if target_ms < now_ms:
        raise CommandError(
            f"it is {iso_of(now_ms)}, later than {iso_of(target_ms)}: time only moves forward"
        )
    clock.advance(target_ms - now_ms)


def perform_explain(broker: Broker, command: Explain) -> Explanation:
    """Return the history of the requested ids; the history of an unknown id is empty."""
    limit = max(0, min(command.limit, MAX_EXPLAIN_ENTRIES))
    history = broker.history
    entries = history.latest(limit)
    for kind, name in command.subjects():
        entries = history.about(name, limit, of=kind)
    return Explanation(
        broker.clock.now_ms(),
        history.names(SubjectKind.GROUP),
        history.names(SubjectKind.TRANSACTIONAL_ID),
        history.names(SubjectKind.TOPIC),
        history.names(SubjectKind.CLIENT),
        entries,
    )


def perform_client_metrics(broker: Broker, command: ShowClientMetrics) -> ClientMetricsStatus:
    """Return the metrics of clients; raises CommandError if clients are not offered to push any."""
    from kafkalite.telemetry.otlp import reason_not_decoded  # noqa: PLC0415 - rarely used

    cluster = running_cluster(broker)
    if not cluster.config.bool(CLIENT_TELEMETRY):
        raise CommandError(f"clients push no metrics without the setting {CLIENT_TELEMETRY}=true")
    clients = cluster.pushed_metrics.clients(command.client_id)
    return ClientMetricsStatus(broker.clock.now_ms(), reason_not_decoded(), clients)


def perform_fault_command(broker: Broker, command: FaultCommand) -> Sequence[FaultState]:
    """Carry out a command and return the affected faults with their counts.

    Raises FaultError for a fault that cannot be added, UnknownFaultError for an unknown id.
    """
    faults = broker.faults
    if isinstance(command, AddFault):
        return (faults.add(command.rule),)
    if isinstance(command, RemoveFault):
        return (faults.remove(command.fault_id),)
    if isinstance(command, ClearFaults):
        return faults.clear()
    return faults.states()


async def perform_node_command(broker: Broker, command: NodeCommand) -> Sequence[NodeStatus]:
    """Carry out a command and return the affected nodes with their states.

    The connections of a stopped node are closed when this returns, and answers that the command
    triggered have been written. Raises UnknownNodeError for an unknown id, CommandError if the
    state is impossible.
    """
    cluster = running_cluster(broker)
    control = cluster.node_control
    if isinstance(command, ListNodes):
        return [_node_status(cluster, node) for _, node in sorted(cluster.nodes.items())]
    if isinstance(command, AddNode):
        return (_node_status(cluster, await _add_node(broker, control, command)),)
    node = control.node(command.node_id)
    if isinstance(command, ShowNode):
        return (_node_status(cluster, node),)
    try:
        if isinstance(command, RemoveNode):
            await broker.remove_node(node.id)
        else:
            await _change_node(broker, control, command)
    except NodeError as error:
        raise CommandError(str(error)) from error
    except AddressError as error:
        raise CommandError(f"node {node.id} cannot be started: {error}") from error
    except KafkaError as error:
        raise CommandError(_sentence(error)) from error
    await _write_answers()
    status = _node_status(cluster, node)
    return (status._replace(state=REMOVED) if isinstance(command, RemoveNode) else status,)


async def _add_node(broker: Broker, control: NodeControl, command: AddNode) -> Node:
    try:
        node_id = await broker.add_node(command.node_id, command.settings)
    except (NodeError, ConfigError) as error:
        raise CommandError(str(error)) from error
    except AddressError as error:
        raise CommandError(f"the node cannot be added: {error}") from error
    except KafkaError as error:
        raise CommandError(_sentence(error)) from error
    await _write_answers()
    return control.node(node_id)


async def _change_node(broker: Broker, control: NodeControl, command: NodeChange) -> None:
    if isinstance(command, SetNodeMetadata):
        change = _choose(
            {"frozen": control.freeze_metadata, "live": control.thaw_metadata},
            "metadata",
            command.metadata,
        )
    elif isinstance(command, SetNodeReplication):
        change = _choose(
            {"paused": control.pause_replication, "running": control.resume_replication},
            "replication",
            command.replication,
        )
    else:
        change = _choose(
            {
                NodeState.RUNNING.value: broker.start_node,
                NodeState.ISOLATED.value: broker.isolate_node,
                NodeState.STOPPED.value: partial(broker.stop_node, controlled=command.controlled),
            },
            "state",
            command.state,
        )
    done = change(command.node_id)
    if done is not None:
        await done


def _choose(
    changes: Mapping[str, Callable[[int], Awaitable[None] | None]], field: str, value: str
) -> Callable[[int], Awaitable[None] | None]:
    """Return the change that sets a field to a value; raises CommandError for other values."""
    if value not in changes:
        *others, last = changes
        raise CommandError(f"{field} must be {', '.join(others)} or {last}, not {value[:40]!r}")
    return changes[value]


def _sentence(error: KafkaError) -> str:
    """Return the text of an error, with its code, as one sentence."""
    message = error.message or error.code.message
    return f"{error.code.name}: {message.removesuffix('.')}"


def _node_status(cluster: Cluster, node: Node) -> NodeStatus:
    metadata = "live"
    if node.is_metadata_frozen:
        metadata = "frozen"
    elif node.has_stale_metadata:
        metadata = "stale"
    led = sum(
        partition.leader == node.id
        for topic in cluster.metadata.image.topics.values()
        for partition in topic.partitions
    )
    return NodeStatus(
        node_id=node.id,
        state=node.state.value,
        is_registered=node.id in cluster.metadata.image.brokers,
        metadata=metadata,
        replication="paused" if node.is_replication_paused else "running",
        led_partitions=led,
        rack=node.rack,
        listeners={
            name: f"{endpoint.host}:{endpoint.port}" for name, endpoint in node.endpoints.items()
        },
    )


async def perform_move_leader(broker: Broker, command: MoveLeader) -> LeaderStatus:
    """Move a leader and return the new one; raises CommandError if that is impossible.

    Answers that the change triggered have been written when this returns.
    """
    cluster = running_cluster(broker)
    topic, index = command.topic, command.partition
    before = _end_offset(cluster, topic, index)
    try:
        cluster.metadata.move_leader(topic, index, command.leader, is_unclean=command.unclean)
    except KafkaError as error:
        if error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            raise CommandError(_sentence(error)) from error
    partition = cluster.metadata.image.topics[topic].partitions[index]
    after = _end_offset(cluster, topic, index)
    await _write_answers()
    return LeaderStatus(
        topic=topic,
        partition=index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        end_offset=after,
        truncated_records=before - after,
    )


def _end_offset(cluster: Cluster, topic: str, index: int) -> int:
    """Return the end offset of a partition, 0 if there is none or its log is offline."""
    hosted = cluster.partitions.topic(topic)
    with suppress(KafkaError):
        partition = None if hosted is None else hosted.partition(index)
        return 0 if partition is None else partition.end_offset
    return 0


def running_cluster(broker: Broker) -> Cluster:
    """Return the cluster of a broker; raises CommandError if the broker is not running."""
    if broker.cluster is None:
        raise CommandError("the broker is not running")
    return broker.cluster


def perform_transactions(broker: Broker) -> list[Transaction]:
    """Return the state of every transactional id, sorted by id."""
    cluster = broker.cluster
    shards = () if cluster is None else cluster.transactions.shards()
    transactions = [transaction for shard in shards for transaction in shard.machine.transactions()]
    return sorted(transactions, key=attrgetter("transactional_id"))


def adjustable_clock(broker: Broker) -> AdjustableClock:
    """Return the broker's clock; raises CommandError if an embedding program controls it."""
    clock = broker.clock
    if not isinstance(clock, AdjustableClock):
        raise CommandError("the clock of this broker is controlled by the program that embeds it")
    return clock


def new_clock(text: str) -> AdjustableClock:
    """Return the clock that `text` describes: `real`, `manual`, `accelerated:60`, all with `@TIME`.

    TIME is the initial time in ISO 8601, by default the current time. Raises CommandError for other
    text.
    """
    from kafkalite.control.times import instant_ms, parse_rate  # noqa: PLC0415 - rarely used

    mode, at, start = text.partition("@")
    name, colon, rate_text = mode.strip().partition(":")
    try:
        rate = parse_rate(rate_text) if colon else None
        return AdjustableClock(rate_of(name, rate), instant_ms(start) if at else None)
    except CommandError:
        raise
    except ValueError as error:
        raise CommandError(f"clock {text[:60]!r}: {error}") from error
