"""What a capture says, whoever wrote it: connections, frames, exchanges, and what is wrong.

Times are nanoseconds since the Unix epoch, as packets carry them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple


class Direction(IntEnum):
    """Which way bytes went."""

    REQUEST = 0
    """From a client to a broker."""
    RESPONSE = 1
    """From a broker to a client."""


class Endpoint(NamedTuple):
    """One end of a connection: an address in numbers, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One TCP connection of a capture."""

    number: int
    """Counts the connections of a capture in the order in which they appear, from 0."""
    client: Endpoint
    broker: Endpoint
    opened_ns: int | None
    """When it was opened; None where the capture began in its midst."""
    node_id: int | None = None
    listener: str | None = None

    def __str__(self) -> str:
        return f"{self.client} > {self.broker}"


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection appears."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame: a request or a response, without the four bytes of its length."""

    at_ns: int
    """When its last byte came."""
    connection: Connection
    direction: Direction
    body: bytes
    file: str
    offset: int
    """Where in the file the packet stands that it begins in."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of one direction that the capture does not have."""

    at_ns: int
    connection: Connection
    direction: Direction
    missing_bytes: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection has ended; where the capture ends before it does, this never comes."""

    at_ns: int
    connection: Connection


Event = Opened | Frame | Gap | Closed
"""What reading a capture yields, in the order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and its response if it got one."""

    connection: Connection
    position: int
    """Counts the requests of its connection, from 0."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    sent_ns: int
    answered_ns: int | None
    """None where no response was seen, or none was due."""
    request: bytes
    """The frame without its length: header and body."""
    request_start: int
    """Where in `request` the body begins."""
    response: bytes | None
    response_start: int
    """Where in `response` the body begins."""


class ProblemKind(StrEnum):
    """What can be wrong with a capture; the words of the `problems` table."""

    UNREADABLE = "unreadable"
    """A file that the file system does not give us, or not to its end."""
    NOT_A_CAPTURE = "not a capture"
    TRUNCATED_BLOCK = "truncated block"
    CORRUPT_BLOCK = "corrupt block"
    UNKNOWN_LINK_TYPE = "unknown link type"
    TRUNCATED_PACKET = "truncated packet"
    """A packet of which the capture kept only the beginning."""
    IP_FRAGMENT = "fragment of an IP packet"
    NOT_KAFKA = "not Kafka"
    ENCRYPTED = "encrypted"
    GAP = "gap"
    MID_CONNECTION = "start within a connection"
    UNKNOWN_VERSION = "unknown API or version"
    MALFORMED = "malformed message"
    NO_REQUEST = "response without a request"
    CLOCK_JUMP = "clock jump"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a capture, and where."""

    kind: ProblemKind
    file: str
    offset: int | None
    """Where in the file; None where that says nothing."""
    connection: str | None
    """The connection as "client > broker", where it concerns one."""
    detail: str
    """One line for people."""
    count: int = 1
