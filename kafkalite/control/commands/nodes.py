"""Commands that add, remove, stop, start and isolate nodes."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError, UnknownNodeError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.typed_json import About
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Row,
    Words,
    one_line,
    refusals_as_errors,
    running_cluster,
    write_answers,
)
from kafkalite.control.turns import in_turns
from kafkalite.ports.texts import count_text
from kafkalite.server.addresses import AddressError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Node
    from kafkalite.server.broker import Broker

REMOVED: Final = "removed"
"""State of a node in the answer of RemoveNode."""
_RUNNING, _ISOLATED, _STOPPED = (
    each.value for each in (NodeState.RUNNING, NodeState.ISOLATED, NodeState.STOPPED)
)
_TOPICS_PER_TURN: Final = 500
_ID: Final = About("id of the node, such as 1", metavar="ID")


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node, and its part in the cluster."""

    id: Annotated[int, About("Id of the node.")]
    state: Annotated[
        str,
        About(
            "`running`, `isolated` (only clients reach it) or `stopped`; `removed` after its "
            "removal."
        ),
    ]
    metadata: Annotated[
        str,
        About("`live`, `frozen`, or `stale` if it is isolated or stopped and has missed changes."),
    ]
    replication: Annotated[
        str, About("`running`, or `paused` if its replicas do not follow their leaders.")
    ]
    led_partitions: Annotated[
        int, About("Number of partitions that it leads, including those of internal topics.")
    ]
    rack: Annotated[str | None, About("Rack of the node, if it has one.")]
    registered: Annotated[
        bool,
        About(
            "Whether it is in the metadata; false after UnregisterBroker, until it is started "
            "again."
        ),
    ]
    listeners: Annotated[dict[str, str], About("Advertised address by listener name.")]


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes of the cluster, by id."""

    nodes: Annotated[tuple[NodeStatus, ...], About("All nodes, also stopped ones.")]


@dataclass(frozen=True, slots=True)
class ListNodes:
    """List all nodes with their states."""

    async def perform(self, broker: Broker) -> NodeList:
        """Return all nodes."""
        cluster = running_cluster(broker)
        led = await _led_partitions(cluster)
        nodes = (_status(cluster, node, led) for _, node in sorted(cluster.nodes.items()))
        return NodeList(tuple(nodes))


@dataclass(frozen=True, slots=True)
class ShowNode:
    """Return a node."""

    node_id: Annotated[int, _ID]

    async def perform(self, broker: Broker) -> NodeStatus:
        """Return the node; raises UnknownNodeError."""
        cluster = running_cluster(broker)
        node = cluster.node_control.node(self.node_id)
        return _status(cluster, node, await _led_partitions(cluster))


@dataclass(frozen=True, slots=True)
class AddNode:
    """Add a node; without an id, it gets the one after the largest id."""

    id: Annotated[
        int | None, About("id of the node; by default the one after the largest id", metavar="ID")
    ] = None
    config: Annotated[
        dict[str, str],
        About(
            "configurations of the node, such as broker.rack",
            help="configuration of the node, such as broker.rack=b; repeatable",
            metavar="KEY=VALUE",
        ),
    ] = field(default_factory=dict)

    async def perform(self, broker: Broker) -> NodeStatus:
        """Add the node; raises CommandError if that is impossible."""
        cluster = running_cluster(broker)
        with _refusals("the node cannot be added"):
            node_id = await broker.nodes.add(self.id, self.config)
        await write_answers()
        node = cluster.node_control.node(node_id)
        return _status(cluster, node, await _led_partitions(cluster))


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Remove a node without replicas; a running node is shut down before."""

    node_id: Annotated[int, _ID]

    async def perform(self, broker: Broker) -> NodeStatus:
        """Remove the node; raises UnknownNodeError or CommandError."""
        cluster = running_cluster(broker)
        node = cluster.node_control.node(self.node_id)
        with _refusals(f"node {node.id} cannot be removed"):
            await broker.nodes.remove(node.id)
        await write_answers()
        return replace(_status(cluster, node, await _led_partitions(cluster)), state=REMOVED)


@dataclass(frozen=True, slots=True)
class ChangeNode:
    """Change a node, and return it. Exactly one of state, metadata and replication is given.

    When the answer is sent, the connections of a stopped node are closed.
    """

    AT_MOST_ONE: ClassVar = ("state", "metadata", "replication")

    node_id: Annotated[int, _ID]
    state: Annotated[
        str | None,
        About(
            "`stopped` stops the node as if its process was killed, `isolated` cuts it off from "
            "the other nodes while clients still reach it, `running` starts or connects it",
            choices=(_RUNNING, _ISOLATED, _STOPPED),
        ),
    ] = None
    metadata: Annotated[
        str | None,
        About(
            "`frozen` lets the node keep its present metadata, `live` lets it receive all changes",
            choices=("frozen", "live"),
        ),
    ] = None
    replication: Annotated[
        str | None,
        About(
            "`paused` lets the replicas of the node stay where they are, so that they lag, "
            "`running` lets them follow their leaders",
            choices=("paused", "running"),
        ),
    ] = None
    controlled: Annotated[
        bool,
        About("let other nodes lead its partitions first, as Kafka's broker does on SIGTERM"),
    ] = False

    def __post_init__(self) -> None:
        given = [name for name in self.AT_MOST_ONE if getattr(self, name) is not None]
        if len(given) != 1:
            raise CommandError(
                f"the body must have exactly one of these fields: {', '.join(self.AT_MOST_ONE)}"
            )
        if self.controlled and self.state != _STOPPED:
            raise CommandError(f"only a stop can be controlled, not the {given[0]} "
                               f"{getattr(self, given[0])[:40]!r}")  # fmt: skip

    async def perform(self, broker: Broker) -> NodeStatus:
        """Change the node; raises UnknownNodeError, or CommandError if that is impossible."""
        cluster = running_cluster(broker)
        control = cluster.node_control
        node = control.node(self.node_id)
        changes: Mapping[tuple[str | None, ...], Callable[[int], Awaitable[None] | None]] = {
            (_RUNNING, None, None): broker.nodes.start,
            (_ISOLATED, None, None): broker.nodes.isolate,
            (_STOPPED, None, None): partial(broker.nodes.stop, controlled=self.controlled),
            (None, "frozen", None): control.freeze_metadata,
            (None, "live", None): control.thaw_metadata,
            (None, None, "paused"): control.pause_replication,
            (None, None, "running"): control.resume_replication,
        }
        with _refusals(f"node {node.id} cannot be started"):
            done = changes[self.state, self.metadata, self.replication](node.id)
            if done is not None:
                await done
        await write_answers()
        return _status(cluster, node, await _led_partitions(cluster))


@contextmanager
def _refusals(problem_with_address: str) -> Iterator[None]:
    """Raise CommandError for the errors of a change of nodes."""
    try:
        with refusals_as_errors():
            yield
    except UnknownNodeError:
        raise
    except (NodeError, ConfigError) as error:
        raise CommandError(str(error)) from error
    except AddressError as error:
        raise CommandError(f"{problem_with_address}: {error}") from error


async def _led_partitions(cluster: Cluster) -> Counter[int]:
    """Return the number of partitions that each node leads."""
    found: Counter[int] = Counter()
    async for topic in in_turns(cluster.metadata.image.topics.values(), _TOPICS_PER_TURN):
        found.update([each.leader for each in topic.partitions])
    return found


def _status(cluster: Cluster, node: Node, led_partitions: Mapping[int, int]) -> NodeStatus:
    metadata = "live"
    if node.is_metadata_frozen:
        metadata = "frozen"
    elif node.has_stale_metadata:
        metadata = "stale"
    return NodeStatus(
        id=node.id,
        state=node.state.value,
        metadata=metadata,
        replication="paused" if node.is_replication_paused else "running",
        led_partitions=led_partitions[node.id],
        rack=node.rack,
        registered=node.id in cluster.metadata.image.brokers,
        listeners={
            name: f"{endpoint.host}:{endpoint.port}" for name, endpoint in node.endpoints.items()
        },
    )


def _line(node: NodeStatus) -> str:
    if node.state == REMOVED:
        return f"node {node.id}: {REMOVED}"
    led = count_text(node.led_partitions, "partition")
    parts = (
        node.state,
        *(() if node.registered else ("unregistered",)),
        *(() if node.metadata == "live" else (f"metadata {node.metadata}",)),
        *(() if node.replication == "running" else (f"replication {node.replication}",)),
        f"leads {led}",
        *(f"{name} {address}" for name, address in node.listeners.items()),
    )
    return f"node {node.id}: {', '.join(parts)}"


def _change(action: str, about: str, **preset: str) -> Words:
    """Return the words of a change; only a stop has an option."""
    return Words(
        f"node {action}",
        about,
        ("node_id",),
        preset=preset,
        offers=("controlled",) if action == "stop" else (),
    )


_PATH, _PATH_OF_ONE = "/v1/nodes", "/v1/nodes/{node_id}"

COMMANDS = Family(
    (
        Row(
            ListNodes,
            NodeList,
            "GET",
            _PATH,
            (Words("node list", "Print all nodes with their states."),),
            lambda listed, _: map(_line, listed.nodes),
        ),
        Row(
            AddNode,
            NodeStatus,
            "POST",
            _PATH,
            (
                Words(
                    "node add",
                    "Add a running node. Later starts begin with it, too.",
                    ("id",),
                    is_optional=True,
                ),
            ),
            one_line(_line),
            {"id": 4, "config": {"broker.rack": "b"}},
            201,
        ),
        Row(ShowNode, NodeStatus, "GET", _PATH_OF_ONE, not_found=UnknownNodeError),
        Row(
            ChangeNode,
            NodeStatus,
            "POST",
            _PATH_OF_ONE,
            (
                _change(
                    "stop",
                    "Stop a node as if it was killed. Other nodes lead its partitions.",
                    state=_STOPPED,
                ),
                _change(
                    "start",
                    "Start a stopped node, or connect an isolated one. Its replicas follow again.",
                    state=_RUNNING,
                ),
                _change(
                    "isolate",
                    "Cut a node off from the other nodes. Clients still reach it.",
                    state=_ISOLATED,
                ),
                _change(
                    "freeze",
                    "Let a node keep its present metadata, so that it does not know later leaders.",
                    metadata="frozen",
                ),
                _change(
                    "thaw",
                    "Let a frozen node receive all changes of the metadata.",
                    metadata="live",
                ),
                _change(
                    "pause",
                    "Let the replicas of a node stay where they are, so that they lag.",
                    replication="paused",
                ),
                _change(
                    "resume",
                    "Let the replicas of a node follow their leaders again.",
                    replication="running",
                ),
            ),
            one_line(_line),
            {"state": "stopped"},
            not_found=UnknownNodeError,
        ),
        Row(
            RemoveNode,
            NodeStatus,
            "DELETE",
            _PATH_OF_ONE,
            (
                Words(
                    "node remove",
                    "Remove a node without replicas. A running node is shut down before.",
                    ("node_id",),
                ),
            ),
            one_line(_line),
            not_found=UnknownNodeError,
        ),
    ),
    {"node": "Stop, start and isolate the nodes of a running broker."},
)
