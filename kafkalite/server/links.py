"""Links: the network between clients and nodes, and between nodes, which rules disturb.

`Links` has the rules of one cluster. They apply to the connections of clients that exist already,
and to new ones. A cut between nodes ends replication and calls between them; every node reaches the
controller nevertheless, as if the controller was a machine of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.gateway.fault_selection import name_pattern
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.link_rules import (
    Direction,
    LinkError,
    LinkState,
    Shape,
    UnknownLinkError,
    describe_link,
)
from kafkalite.server.linked_connection import LinkedConnection
from kafkalite.wire.frames import SHARED_BUFFER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.server.connection import Connection
    from kafkalite.server.link_rules import LinkRule
    from kafkalite.server.recording import RecordedConnection

MAX_LINKS: Final = 100
"""The maximum number of rules."""
MAX_FORGOTTEN: Final = 1_000
"""The maximum number of sockets that stay open for clients of forgotten connections."""


class LinksState(NamedTuple):
    """The rules for links at one moment."""

    rules: tuple[tuple[str, LinkRule], ...]
    """The id and the rule of each."""
    number: int
    """The number of the last rule that was added."""


class Links:
    """The rules for the links of one cluster, in the order in which they were added.

    The effects of rules for the same link add up. `connections()` are those of clients;
    `report(event, id, rule)` is called for every rule that is added or removed.
    """

    def __init__(
        self,
        cluster: Cluster,
        connections: Callable[[], Iterable[Connection]],
        report: Callable[[str, str, str], None],
    ) -> None:
        self._cluster = cluster
        self._connections = connections
        self._report = report
        self._rules: dict[str, _ActiveRule] = {}
        self._linked: dict[LinkedConnection, tuple[_ActiveRule, ...]] = {}
        """Connection → the rules that select it, in the order in which they were added."""
        self._shapes: dict[tuple[_ActiveRule, ...], tuple[Shape, Shape]] = {}
        """The shapes of both directions by the present rules that select a connection."""
        self._forgotten: dict[LinkedConnection, None] = {}
        """Connections that ended for the broker only, the oldest first."""
        self._number = 0
        self.clock = cluster.clock
        self.entropy = cluster.entropy
        self.receive_buffer = bytearray(SHARED_BUFFER_BYTES)

    def states(self) -> list[LinkState]:
        """Return every rule, with the number of connections that it affects."""
        return [self._state(rule) for rule in self._rules.values()]

    def add(self, rule: LinkRule) -> LinkState:
        """Disturb links from now on; raises LinkError for an unknown node."""
        for name in ("node", "from_node"):
            node_id = getattr(rule, name)
            if node_id is not None and node_id not in self._cluster.nodes:
                nodes = ", ".join(map(str, sorted(self._cluster.nodes)))
                raise LinkError(f"{name}: there is no node {node_id}; the nodes are {nodes}")
        if len(self._rules) >= MAX_LINKS:
            raise LinkError(f"there are {MAX_LINKS} links already: heal one first")
        self._number += 1
        active = _ActiveRule(f"l{self._number}", rule)
        self._rules[active.id] = active
        self._shapes.clear()
        self._report("link disturbed", active.id, describe_link(rule))
        if rule.from_node is not None:
            self._cut_nodes()
            return self._state(active)
        self._apply(active, (*self._linked, *self._attach(active)))
        # The event loop announces a connection later than it creates its protocol.
        asyncio.get_running_loop().call_soon(self._apply_to_unattached, active)
        return self._state(active)

    def _apply_to_unattached(self, active: _ActiveRule) -> None:
        if active.id in self._rules:
            self._apply(active, self._attach(active))

    def _attach(self, active: _ActiveRule) -> list[LinkedConnection]:
        """Put LinkedConnections into connections that a rule may select and that have none."""
        attached = {each.connection for each in self._linked}
        added = [
            LinkedConnection.attach(self, connection)
            for connection in self._connections()
            if connection not in attached
            and not connection.transport.is_closing()
            and active.may_select(connection)
        ]
        self._linked.update((each, self._selecting(each)) for each in added)
        return added

    def _apply(self, active: _ActiveRule, connections: Iterable[LinkedConnection]) -> None:
        for linked in connections:
            if linked.is_connected and active.selects(linked):
                if active.rule.half_open:
                    linked.half_open_links.add(active.id)
                    linked.forget()
                selecting = self._linked[linked]
                self._shape(linked, selecting if active in selecting else (*selecting, active))

    def snapshot(self) -> LinksState:
        """Return the present rules."""
        return LinksState(
            tuple((each.id, each.rule) for each in self._rules.values()), self._number
        )

    def restore(self, state: LinksState) -> None:
        """Have the rules of a state in place of the present ones; what waits is delivered."""
        self._remove(tuple(self._rules.values()))
        for link_id, rule in state.rules:
            self._number = int(link_id.removeprefix("l")) - 1
            self.add(rule)
        self._number = state.number

    def heal(self, link_id: str) -> LinkState:
        """Remove a rule, and deliver what waits; raises UnknownLinkError for an unknown id."""
        active = self._rules.get(link_id)
        if active is None:
            known = f"the links are {', '.join(self._rules)}" if self._rules else "there is none"
            raise UnknownLinkError(f"there is no link {link_id[:40]!r}; {known}")
        state = self._state(active)
        self._remove((active,))
        return state

    def heal_all(self) -> list[LinkState]:
        """Remove all rules, and deliver what waits; return the rules."""
        states = self.states()
        self._remove(tuple(self._rules.values()))
        return states

    def _remove(self, removed: tuple[_ActiveRule, ...]) -> None:
        self._shapes.clear()
        for active in removed:
            del self._rules[active.id]
            self._report("link healed", active.id, describe_link(active.rule))
        self._cut_nodes()
        for linked in tuple(self._linked):
            for active in removed:
                linked.half_open_links.discard(active.id)
            selecting = self._linked[linked]
            self._shape(linked, tuple(each for each in selecting if each not in removed))
            if not self._rules and linked.detach():
                self._linked.pop(linked, None)

    def close(self) -> None:
        """Close the sockets of all disturbed links: the broker stops."""
        self._rules.clear()
        for linked in tuple(self._linked):
            if linked.is_connected and linked.is_changed:
                linked.abort_socket()

    def protocol_of(
        self, connection: Connection, inner: Connection | RecordedConnection
    ) -> Connection | RecordedConnection | LinkedConnection:
        """Return the protocol of a new connection: `inner` if there are no rules."""
        if all(each.rule.from_node is not None for each in self._rules.values()):
            return inner
        linked = LinkedConnection(self, connection, inner)
        self._linked[linked] = ()
        return linked

    def reshape(self, linked: LinkedConnection) -> None:
        """Set the shapes of a connection by the rules that select it."""
        self._shape(linked, self._selecting(linked))

    def _selecting(self, linked: LinkedConnection) -> tuple[_ActiveRule, ...]:
        return tuple(each for each in self._rules.values() if each.selects(linked))

    def _shape(self, linked: LinkedConnection, selecting: tuple[_ActiveRule, ...]) -> None:
        """Set the shapes of a connection that these rules select."""
        if linked in self._linked:
            self._linked[linked] = selecting
        shapes = self._shapes.get(selecting)
        if shapes is None:
            rules = [each.rule for each in selecting]
            shapes = Shape.of(rules, Direction.IN), Shape.of(rules, Direction.OUT)
            self._shapes[selecting] = shapes
        linked.change(*shapes)

    def remove(self, linked: LinkedConnection) -> None:
        """Forget a connection whose socket is closed."""
        self._linked.pop(linked, None)
        self._forgotten.pop(linked, None)

    def add_forgotten(self, linked: LinkedConnection) -> None:
        """Limit the sockets of connections that ended for the broker only: the oldest is closed."""
        self._forgotten[linked] = None
        if len(self._forgotten) > MAX_FORGOTTEN:
            oldest = next(iter(self._forgotten))
            del self._forgotten[oldest]
            oldest.abort_socket()

    def _state(self, active: _ActiveRule) -> LinkState:
        rule = active.rule
        count = sum(
            active.id in linked.half_open_links if rule.half_open else active in selecting
            for linked, selecting in self._linked.items()
        )
        return LinkState(active.id, rule, count)

    def _cut_nodes(self) -> None:
        """Cut the links between nodes that the rules select, and connect the others."""
        cut = frozenset(
            pair for each in self._rules.values() for pair in _cut_pairs(each.rule, self._cluster)
        )
        self._cluster.node_control.cut_links(cut)


class _ActiveRule:
    """A rule, and how it selects connections."""

    __slots__ = ("_is_address", "_is_client_id", "id", "rule")

    def __init__(self, link_id: str, rule: LinkRule) -> None:
        self.id = link_id
        self.rule = rule
        self._is_client_id = None if rule.client_id is None else name_pattern(rule.client_id)
        self._is_address = None if rule.address is None else name_pattern(rule.address)

    def selects(self, linked: LinkedConnection) -> bool:
        """Return whether the rule selects a connection, with what is known of it now."""
        if not self.may_select(linked.connection):
            return False
        if self._is_client_id is None:
            return True
        return linked.client_id is not None and self._is_client_id(linked.client_id)

    def may_select(self, connection: Connection) -> bool:
        """Return whether the rule may select a connection, which has any client id."""
        rule = self.rule
        return (
            rule.from_node is None
            and rule.node in {None, connection.node_id}
            and (self._is_address is None or self._is_address(connection.host))
        )


def _cut_pairs(rule: LinkRule, cluster: Cluster) -> Iterator[tuple[int, int]]:
    """Yield (sender, receiver) for each cut link between nodes in one direction."""
    if rule.from_node is None:
        return
    for node_id in cluster.nodes if rule.node is None else (rule.node,):
        if node_id == rule.from_node:
            continue
        if rule.affects(Direction.IN):
            yield rule.from_node, node_id
        if rule.affects(Direction.OUT):
            yield node_id, rule.from_node
