"""BrokerLinks: cuts, slows and heals links of a broker from the test's thread."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kafkalite.config.typed_json import read
from kafkalite.control.commands.links import DisturbLink, HealLink, HealLinks, ListLinks
from kafkalite.server.link_rules import UnknownLinkError, describe_link

if TYPE_CHECKING:
    from kafkalite.control.command_table import Perform
    from kafkalite.server.link_rules import LinkRule, LinkState


class DisturbedLink:
    """A rule for links; as a context manager it is healed at the end of the block."""

    def __init__(self, perform: Perform, state: LinkState) -> None:
        self._perform = perform
        self._last_state = state

    @property
    def id(self) -> str:
        """The id of the rule in the log and for other processes."""
        return self._last_state.id

    @property
    def rule(self) -> LinkRule:
        """The links, and what the network does to them."""
        return self._last_state.rule

    @property
    def connections(self) -> int:
        """The number of connections of clients that are affected now; at the end, the last one."""
        for state in self._perform(ListLinks()).links:
            if state.id == self.id:
                self._last_state = state
        return self._last_state.connections

    def heal(self) -> None:
        """Remove the rule, and deliver the bytes that wait; does nothing if it was removed."""
        with suppress(UnknownLinkError):
            self._last_state = self._perform(HealLink(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<link {self.id}: {describe_link(self.rule)}>"


class BrokerLinks:
    """Cuts, slows and heals links; usable from any thread but the broker's.

    `client_id`, `address`, `node` and `from_node` select links; all that are given must match. In
    the first two, `*` stands for any characters. A link is the connection of a client to a node;
    with `from_node`, it is that of a node to another. `direction` is that of the bytes: "in", to
    the node, "out", from the node, or "both". The methods raise ValueError, with one sentence, for
    an invalid rule.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def cut(
        self,
        *,
        client_id: str | None = None,
        address: str | None = None,
        node: int | None = None,
        from_node: int | None = None,
        direction: str = "both",
    ) -> DisturbedLink:
        """Let no bytes arrive, and no end of a connection, until the link is healed."""
        return self._disturb(
            client_id=client_id,
            address=address,
            node=node,
            from_node=from_node,
            direction=direction,
            cut=True,
        )

    def slow(
        self,
        *,
        client_id: str | None = None,
        address: str | None = None,
        node: int | None = None,
        direction: str = "both",
        latency_ms: int | None = None,
        jitter_ms: int | None = None,
        bytes_per_second: int | None = None,
    ) -> DisturbedLink:
        """Let bytes arrive later, by the broker's clock, or with a bandwidth per connection."""
        return self._disturb(
            client_id=client_id,
            address=address,
            node=node,
            direction=direction,
            latency_ms=latency_ms,
            jitter_ms=jitter_ms,
            bytes_per_second=bytes_per_second,
        )

    def half_open(
        self, *, client_id: str | None = None, address: str | None = None, node: int | None = None
    ) -> DisturbedLink:
        """Let nodes forget the present connections; clients do not notice it until it is healed."""
        return self._disturb(client_id=client_id, address=address, node=node, half_open=True)

    def _disturb(self, **fields: object) -> DisturbedLink:
        given = {name: value for name, value in fields.items() if value is not None}
        rule = read(DisturbLink, given, "a link")
        return DisturbedLink(self._perform, self._perform(rule))

    def list(self) -> list[DisturbedLink]:
        """Return all rules, in the order in which they were added."""
        return [DisturbedLink(self._perform, state) for state in self._perform(ListLinks()).links]

    def heal(self) -> None:
        """Remove all rules, and deliver the bytes that wait."""
        self._perform(HealLinks())
