"""Commands that cut, slow and heal links: those of clients to nodes, and between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About, fields_of
from kafkalite.control.command_table import Family, Row, Words, one_line, write_answers
from kafkalite.server.link_rules import LinkRule, LinkState, UnknownLinkError, describe_link

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

_ID: Final = About("id that `link list` prints", metavar="ID")
_SELECTION: Final = ("client_id", "address", "node", "direction")


@dataclass(frozen=True, slots=True)
class LinkList:
    """Rules for links, in the order in which they were added."""

    links: Annotated[tuple[LinkState, ...], About("All rules, or those that were removed.")]


@dataclass(frozen=True, slots=True)
class ListLinks:
    """List all rules for links."""

    async def perform(self, broker: Broker) -> LinkList:
        """Return all rules."""
        return LinkList(tuple(broker.nodes.links.states()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbLink(LinkRule):
    """Cut links, slow them, or let them be half-open, until they are healed.

    A rule applies to the links that match every field that is set: connections that exist, and new
    ones.
    """

    async def perform(self, broker: Broker) -> LinkState:
        """Add the rule; raises LinkError if it cannot be added."""
        rule = LinkRule(**{each.name: getattr(self, each.name) for each in fields_of(LinkRule)})
        return broker.nodes.links.add(rule)


@dataclass(frozen=True, slots=True)
class HealLink:
    """Remove a rule for links, and deliver the bytes that wait; return the rule."""

    link_id: Annotated[str, _ID]

    async def perform(self, broker: Broker) -> LinkState:
        """Remove the rule; raises UnknownLinkError for an unknown id."""
        state = broker.nodes.links.heal(self.link_id)
        await write_answers()
        return state


@dataclass(frozen=True, slots=True)
class HealLinks:
    """Remove all rules for links, and deliver the bytes that wait; return the rules."""

    async def perform(self, broker: Broker) -> LinkList:
        """Remove all rules."""
        states = broker.nodes.links.heal_all()
        await write_answers()
        return LinkList(tuple(states))


def line_of(state: LinkState) -> str:
    """Return a rule with its connections as one line."""
    return f"{state.id}: {describe_link(state.rule)} ({state.connections} connections)"


def _lines(listed: LinkList, _: object) -> list[str]:
    return list(map(line_of, listed.links)) or ["no links are disturbed"]


_PATH, _PATH_OF_ONE = "/v1/links", "/v1/links/{link_id}"

COMMANDS = Family(
    (
        Row(
            ListLinks,
            LinkList,
            "GET",
            _PATH,
            (Words("link list", "Print the links that are disturbed."),),
            _lines,
        ),
        Row(
            DisturbLink,
            LinkState,
            "POST",
            _PATH,
            (
                Words(
                    "link cut",
                    "Cut links: nothing arrives, and no connection is closed.",
                    preset={"cut": True},
                    offers=(*_SELECTION, "from_node"),
                ),
                Words(
                    "link slow",
                    "Slow the links of clients by latency, jitter and bandwidth.",
                    offers=(*_SELECTION, "latency_ms", "jitter_ms", "bytes_per_second"),
                ),
                Words(
                    "link half-open",
                    "Let nodes forget connections, which clients do not notice.",
                    preset={"half_open": True},
                    offers=("client_id", "address", "node"),
                ),
            ),
            one_line(line_of),
            {"client_id": "shop", "cut": True},
            201,
        ),
        Row(
            HealLink,
            LinkState,
            "DELETE",
            _PATH_OF_ONE,
            (Words("link heal", "Heal one link or all links.", ("link_id",)),),
            one_line(line_of),
            not_found=UnknownLinkError,
        ),
        Row(
            HealLinks,
            LinkList,
            "DELETE",
            _PATH,
            (Words("link heal", "heal all links", flag="all"),),
            _lines,
        ),
    ),
    {"link": "Cut, slow and heal the links of a running broker."},
)
