"""Types of captures: connections, frames, exchanges and problems.

Times are in nanoseconds since the Unix epoch, as in the timestamps of packets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple


class Direction(IntEnum):
    """The direction in which bytes were sent."""

    REQUEST = 0
    """From a client to a broker."""
    RESPONSE = 1
    """From a broker to a client."""


class Endpoint(NamedTuple):
    """One end of a connection: a numeric IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One TCP connection of a capture."""

    number: int
    """Number of the connection in the capture, in order of appearance, from 0."""
    client: Endpoint
    broker: Endpoint
    opened_ns: int | None
    """Time of opening; None if the capture does not contain the start of the connection."""
    node_id: int | None = None
    """Id of the broker's node; None if the capture does not contain it."""
    listener: str | None = None
    """Name of the broker's listener; None if the capture does not contain it."""

    def __str__(self) -> str:
        return f"{self.client} > {self.broker}"


@dataclass(frozen=True, slots=True)
class Opened:
    """The first event of a connection."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class Frame:
    """One complete frame: a request or a response, without the four bytes of its length."""

    at_ns: int
    """Time at which its last byte was captured."""
    connection: Connection
    direction: Direction
    body: bytes
    file: str
    """Path of the capture file in which the frame begins."""
    offset: int
    """File offset of the packet in which the frame begins."""
    request_seq: int | None = None
    """A TCP sequence number of the client. For a request, that of the last segment's first byte;
    for a response, the number that its last segment acknowledges. None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of one direction that are missing from the capture."""

    at_ns: int
    connection: Connection
    direction: Direction
    missing_bytes: int
    """Number of missing bytes."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of a connection. There is no such event if the capture ends before the connection."""

    at_ns: int
    connection: Connection


Event = Opened | Frame | Gap | Closed
"""The events that reading a capture yields, in time order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and its response if the capture has one."""

    connection: Connection
    position: int
    """Number of the request in its connection, from 0."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    sent_ns: int
    answered_ns: int | None
    """Time of the response, or of the request if that was captured later; None if the capture has
    no response."""
    request: bytes
    """The frame without its length: header and body."""
    request_start: int
    """Offset of the body in `request`."""
    response: bytes | None
    response_start: int
    """Offset of the body in `response`."""
    file: str = ""
    """Path of the capture file in which the request begins; empty if it is unknown."""
    offset: int = -1
    """File offset of the packet in which the request begins; -1 if it is unknown."""


class ProblemKind(StrEnum):
    """Kinds of problems of a capture. The values appear in the `problems` table."""

    UNREADABLE = "unreadable"
    """The operating system cannot read the file, or cannot read it to its end."""
    NOT_A_CAPTURE = "not a capture"
    TRUNCATED_BLOCK = "truncated block"
    CORRUPT_BLOCK = "corrupt block"
    UNKNOWN_LINK_TYPE = "unknown link type"
    TRUNCATED_PACKET = "truncated packet"
    """Only the beginning of the packet was captured."""
    IP_FRAGMENT = "fragment of an IP packet"
    NOT_KAFKA = "not Kafka"
    ENCRYPTED = "encrypted"
    """The connection uses TLS."""
    GAP = "gap"
    """Bytes of a connection are missing."""
    MID_CONNECTION = "start within a connection"
    """The connection began before the capture."""
    UNKNOWN_VERSION = "unknown API or version"
    MALFORMED = "malformed message"
    NO_REQUEST = "response without a request"
    TOO_MANY_OPEN = "too many open requests"
    """Requests that were counted as unanswered, because memory for open requests is limited."""
    CLOCK_JUMP = "clock jump"
    """A packet is more than a second older than an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a capture, with its place."""

    kind: ProblemKind
    file: str
    offset: int | None
    """File offset; None if an offset has no meaning for this problem."""
    connection: str | None
    """The connection as "client > broker"; None if the problem concerns no single connection."""
    detail: str
    """One line of text for the user."""
    count: int = 1
