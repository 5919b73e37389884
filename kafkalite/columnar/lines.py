"""The connections of one file: who is at their ends, and what is carried from chunk to chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from kafkalite.capture.packets import reverse, sender

if TYPE_CHECKING:
    from kafkalite.capture.model import Endpoint
    from kafkalite.columnar.exact import Exact


def connection_id(client: Endpoint, broker: Endpoint, opened_ns: int | None, file: str = "") -> int:
    """Return the number of a connection: the same in every file that knows when it was opened.

    One that does not is told by the file's name, until files are put side by side.
    """
    opening = f"in {file}" if opened_ns is None else f"{opened_ns}"
    said = f"{client} {broker} {opening}".encode()
    return int.from_bytes(blake2b(said, digest_size=8).digest(), signed=True)


@dataclass(slots=True)
class Line:
    """One connection, as far as the file has been read."""

    number: int
    flows: tuple[bytes, bytes]
    """Both directions as `capture` names them: first the client's."""
    opened_ns: int | None
    connection: int
    node_id: int | None = None
    next_seq: list[int | None] = field(default_factory=lambda: [None, None])
    rest: list[bytes] = field(default_factory=lambda: [b"", b""])
    """The beginning of a frame that has not come whole."""
    rest_origin: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0), (0, 0)])
    """Where in the file the packet stands that it begins in, and its time."""
    initials: list[int | None] = field(default_factory=lambda: [None, None])
    """The sequence numbers of the packets that opened it."""
    begins_here: bool = False
    """Whether the file has its opening."""
    has_appeared: bool = False
    """Whether it has a frame."""
    is_judged: bool = False
    """Whether its first bytes were found to be a request's."""
    is_over: bool = False
    has_ended: list[bool] = field(default_factory=lambda: [False, False])
    exact: Exact | None = None
    """What follows it segment by segment, where it is not in order."""
    first_ns: int = 0
    last_ns: int = 0

    client: Endpoint = field(init=False)
    """The client's end."""
    broker: Endpoint = field(init=False)
    """The broker's end."""
    names: tuple[str, str] = field(init=False)
    """Both as text."""

    def __post_init__(self) -> None:
        self.turn(self.flows[0])

    def turn(self, client: bytes) -> None:
        """Take the sender on a flow for the client."""
        self.flows = (client, reverse(client))
        self.client, self.broker = sender(client), sender(self.flows[1])
        self.names = (str(self.client), str(self.broker))
