"""BrokerNodes: adds, removes, stops, starts and isolates the nodes of a broker under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalite.cluster.node_control import UnknownNodeError
from kafkalite.config.typed_json import JsonError
from kafkalite.control.commands.nodes import AddNode, ChangeNode, ListNodes, RemoveNode, ShowNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.control.command_table import Perform
    from kafkalite.control.commands.nodes import NodeStatus


class BrokerNode:
    """One node of a broker; usable from any thread but the broker's.

    When a method returns, the change has been made, and the answers that it triggered have been
    sent. The methods raise ValueError, with one sentence, for an impossible change.
    """

    def __init__(self, perform: Perform, node_id: int) -> None:
        self._perform = perform
        self._id = node_id

    @property
    def id(self) -> int:
        """The id of the node."""
        return self._id

    @property
    def state(self) -> str:
        """The state: "running", "isolated" or "stopped"."""
        return self._status().state

    @property
    def metadata(self) -> str:
        """The state of the node's metadata: "live", "frozen" or "stale".

        It is stale if the node has missed changes because it is isolated or stopped.
        """
        return self._status().metadata

    @property
    def replication(self) -> str:
        """The state of the node's replicas: "running", or "paused" if they do not follow."""
        return self._status().replication

    @property
    def led_partitions(self) -> int:
        """The number of partitions that the node leads, including those of internal topics."""
        return self._status().led_partitions

    @property
    def bootstrap_servers(self) -> str:
        """The address of the node for clients: `host:port`."""
        return next(iter(self._status().listeners.values()))

    @property
    def is_registered(self) -> bool:
        """Whether the controller knows the node; UnregisterBroker ends that until a start."""
        return self._status().registered

    def stop(self, *, controlled: bool = False) -> None:
        """Stop the node as if its process was killed.

        Its ports refuse connections, and its connections end without answers. Other nodes lead its
        partitions and coordinate its groups and transactional ids. With `controlled`, the node
        stops as Kafka's broker does on SIGTERM: other nodes in sync lead its partitions first, and
        requests that wait for the former leader are answered. Raises ValueError for a
        controlled stop of an isolated node.
        """
        self._perform(ChangeNode(self._id, "stopped", controlled=controlled))

    def start(self) -> None:
        """Start the node if it is stopped, or connect it to the other nodes if it is isolated.

        Its replicas follow at once. It leads partitions again after an election.
        """
        self._perform(ChangeNode(self._id, "running"))

    def remove(self) -> None:
        """Remove the node from the cluster; a running node is shut down before.

        Later starts of the cluster begin without it. Raises ValueError for a node with replicas,
        which must be reassigned to other nodes first, and for the last running one.
        """
        self._perform(RemoveNode(self._id))

    def isolate(self) -> None:
        """Cut the node off from the other nodes; clients still reach it.

        Its metadata does not change any more, and its replicas lag. The controller elects other
        leaders after `broker.session.timeout.ms`. Raises ValueError for a stopped node, and for the
        last running one.
        """
        self._perform(ChangeNode(self._id, "isolated"))

    def freeze_metadata(self) -> None:
        """Let the node keep its present metadata, so that it does not know later leaders."""
        self._perform(ChangeNode(self._id, metadata="frozen"))

    def thaw_metadata(self) -> None:
        """Let the node receive all changes of the metadata again, beginning with missed ones."""
        self._perform(ChangeNode(self._id, metadata="live"))

    def pause_replication(self) -> None:
        """Let the replicas of the node stay where they are, so that they lag."""
        self._perform(ChangeNode(self._id, replication="paused"))

    def resume_replication(self) -> None:
        """Let the replicas of the node follow their leaders again."""
        self._perform(ChangeNode(self._id, replication="running"))

    def _status(self) -> NodeStatus:
        return self._perform(ShowNode(self._id))

    def __repr__(self) -> str:
        return f"<node {self._id}>"


class BrokerNodes(Mapping[int, BrokerNode]):
    """The nodes of a broker by id; an unknown id raises KeyError."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def __getitem__(self, node_id: int) -> BrokerNode:
        try:
            self._perform(ShowNode(node_id))
        except UnknownNodeError as error:
            raise KeyError(str(error)) from error
        except JsonError as error:
            known = ", ".join(map(str, self))
            raise KeyError(f"there is no node {node_id!r}: the nodes are {known}") from error
        return BrokerNode(self._perform, node_id)

    def __iter__(self) -> Iterator[int]:
        return iter([status.id for status in self._perform(ListNodes()).nodes])

    def __len__(self) -> int:
        return len(self._perform(ListNodes()).nodes)

    def add(
        self, node_id: int | None = None, *, config: Mapping[str, str | float] | None = None
    ) -> BrokerNode:
        """Add a running node, and return it; without an id, it gets the one after the largest id.

        The node has no partitions until some are created on it or reassigned to it. `config` has
        configurations of the node, such as {"broker.rack": "b"}. Later starts of the cluster begin
        with the node, too. Raises ValueError, with one sentence, for an id that is taken and for
        invalid configurations.
        """
        settings = {key: f"{value}" for key, value in (config or {}).items()}
        return BrokerNode(self._perform, self._perform(AddNode(node_id, settings)).id)

    def __repr__(self) -> str:
        return f"<nodes {', '.join(map(str, self))}>"
