"""Link rules: the connections that a rule selects, and what the network does to them.

A rule is data, as a fault is: the JSON of the control API, the options of `kafkalite link`, the
reference and the OpenAPI document follow from `LinkRule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from kafkalite.config.typed_json import About, JsonError, quote, read, to_json
from kafkalite.gateway.fault_rules import MAX_DELAY_MS, MAX_NODE, FaultError, name_field
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES_PER_SECOND: Final = 1_000_000_000_000


class LinkError(ValueError):
    """A link that cannot be changed or found; the text is one sentence."""


class UnknownLinkError(LinkError):
    """There is no change of a link with this id."""


class Direction(StrEnum):
    """The direction of bytes, as a node sees it."""

    BOTH = "both"
    IN = "in"
    """From a client, or from the other node, to the node."""
    OUT = "out"


def _read_direction(where: str, value: object) -> Direction:
    if isinstance(value, str) and value in tuple(Direction):
        return Direction(value)
    raise JsonError(f"{where} must be both, in or out, not {quote(value)}")


def _node_field(text: str) -> About:
    return About(text, minimum=0, maximum=MAX_NODE, metavar="ID")


def _duration(text: str, alias: str) -> About:
    return About(
        text,
        minimum=1,
        maximum=MAX_DELAY_MS,
        alias=alias,
        parse=duration_ms,
        metavar="DURATION",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule:
    """The links that match every field that is set, and what the network does to them.

    A link is the connection of a client to a node or, with `from_node`, that of a node to another.
    """

    OMITS_DEFAULTS: ClassVar = True

    client_id: Annotated[
        str | None, name_field("client id of the first request; * stands for any characters")
    ] = None
    address: Annotated[
        str | None,
        name_field("address of the client, such as 127.0.0.1 or 10.*", "ADDRESS"),
    ] = None
    node: Annotated[int | None, _node_field("node at the broker's end of the link [all]")] = None
    from_node: Annotated[
        int | None, _node_field("node at the other end: a link between nodes, which can be cut")
    ] = None
    direction: Annotated[
        Direction,
        About(
            "direction of the bytes: in, to the node, out, from the node, or both [both]",
            read=_read_direction,
            schema={"enum": [*Direction]},
            choices=tuple(map(str, Direction)),
        ),
    ] = Direction.BOTH
    cut: Annotated[
        bool, About("deliver no bytes, and no end of a connection, until the link is healed")
    ] = False
    half_open: Annotated[
        bool,
        About(
            "let the node forget the connections of now, while the clients do not notice it until "
            "the link is healed"
        ),
    ] = False
    latency_ms: Annotated[
        int, _duration("deliver bytes this much later, by the broker's clock", "latency")
    ] = 0
    jitter_ms: Annotated[
        int, _duration("add up to this much to the latency, at random", "jitter")
    ] = 0
    bytes_per_second: Annotated[
        int | None,
        About(
            "bandwidth of each connection in each direction",
            minimum=1,
            maximum=MAX_BYTES_PER_SECOND,
            metavar="N",
        ),
    ] = None

    def __post_init__(self) -> None:
        slows = bool(self.latency_ms or self.jitter_ms or self.bytes_per_second)
        if not (self.cut or self.half_open or slows):
            raise LinkError(
                "a link needs an effect: cut, half_open, latency_ms, jitter_ms or bytes_per_second"
            )
        if self.half_open and (self.cut or slows):
            raise LinkError("half_open cannot be combined with other effects")
        if self.half_open and self.direction is not Direction.BOTH:
            raise LinkError("half_open has no direction")
        if self.cut and slows:
            raise LinkError("cut cannot be combined with latency_ms, jitter_ms or bytes_per_second")
        if self.from_node is None:
            return
        if not self.cut:
            raise LinkError("from_node needs cut: links between nodes can only be cut")
        if self.client_id is not None or self.address is not None:
            raise LinkError("from_node cannot be combined with client_id and address")
        if self.from_node == self.node:
            raise LinkError("from_node must not be node: a node has no link to itself")

    def affects(self, direction: Direction) -> bool:
        """Return whether the rule changes bytes in this direction, `IN` or `OUT`."""
        return self.direction in {Direction.BOTH, direction}


@dataclass(frozen=True, slots=True)
class LinkState:
    """A change of links, with the number of connections that it affects now."""

    id: Annotated[str, About("Id with which the link can be healed.")]
    rule: Annotated[LinkRule, About("The links and the effect.")]
    connections: Annotated[int, About("Number of connections of clients that it affects now.")]


class Shape(NamedTuple):
    """What the network does to the bytes of one direction of a connection."""

    is_cut: bool = False
    latency_ms: int = 0
    jitter_ms: int = 0
    bytes_per_second: int | None = None

    @classmethod
    def of(cls, rules: Iterable[LinkRule], direction: Direction) -> Shape:
        """Return the effects of rules on a direction, `IN` or `OUT`, together."""
        effective = [rule for rule in rules if rule.affects(direction)]
        rates = [each.bytes_per_second for each in effective if each.bytes_per_second is not None]
        return cls(
            any(rule.cut for rule in effective),
            sum(rule.latency_ms for rule in effective),
            sum(rule.jitter_ms for rule in effective),
            min(rates, default=None),
        )


UNCHANGED: Final = Shape()


def parse_link(body: object) -> LinkRule:
    """Return the rule that a JSON value describes; raises LinkError for an invalid one."""
    try:
        return read(LinkRule, body, "a link")
    except (JsonError, FaultError) as error:
        raise LinkError(str(error)) from error


def describe_link(rule: LinkRule) -> str:
    """Return a rule in one line, such as "client_id=shop direction=in cut=true"."""
    values = to_json(rule).items()
    return " ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values
    )
