"""What a scenario sees of a broker: connections, and a transcript of normalised answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.conformance.normal import Normaliser, Tree
from tests.conformance.raw import ConnectionClosedError, RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message

_SETTLE_TIMEOUT_S = 15.0
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer in a transcript."""

    asked: str
    answer: Tree


@dataclass(slots=True)
class World:
    """One broker during one scenario."""

    port: int
    name: str
    ignored: frozenset[str] = frozenset()
    transcript: list[Entry] = field(default_factory=list)
    _normaliser: Normaliser = field(init=False)
    _connections: dict[str, RawClient] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._normaliser = Normaliser(self.ignored)

    def ask(self, request: Message, version: int, on: str = "main") -> Any:  # noqa: ANN401
        """Send a request, put its answer into the transcript and give it back.

        A connection that is closed instead is an answer too, and given back as None.
        """
        self.send(request, version, on)
        return self.hear(on, asked=_title(request, version))

    def send(self, request: Message, version: int, on: str = "main") -> None:
        """Send a request whose answer may come later."""
        self.connection(on).send(request, version)

    def hear(
        self, on: str = "main", *, asked: str = "answer", answer_version: int | None = None
    ) -> Any:  # noqa: ANN401
        """Wait for the next answer on a connection and put it into the transcript."""
        try:
            response = self.connection(on).receive(answer_version)
        except ConnectionClosedError:
            self._drop(on)
            self.note(asked, "the connection was closed")
            return None
        self.note(asked, self._normaliser.tree(response))
        return response

    def probe(self, request: Message, version: int) -> Any:  # noqa: ANN401
        """Ask without a word in the transcript."""
        return self.connection("probe").call(request, version)

    def settle(
        self, request: Message, version: int, until: Callable[[Any], bool], *, note: bool = True
    ) -> Any:  # noqa: ANN401
        """Ask again until an answer is as wanted, and put that one into the transcript.

        A real broker applies what its controller decided a moment later.
        """
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while True:
            response = self.probe(request, version)
            if until(response) or time.monotonic() > deadline:
                if note:
                    self.note(_title(request, version), self._normaliser.tree(response))
                return response
            time.sleep(_PAUSE_S)

    def name_topic(self, topic_id: bytes, name: str) -> None:
        """Let a topic's id appear by the topic's name."""
        self._normaliser.name("topic_id", topic_id, f"id of {name}")

    def name_member(self, member_id: str, name: str) -> None:
        """Let a member's id appear by a name, for answers that list members as they please."""
        self._normaliser.name("member_id", member_id, name)

    def tree(self, message: Message) -> Tree:
        """Turn a message that was not an answer into plain values, ids by the same symbols."""
        return self._normaliser.tree(message)

    def symbol(self, field: str, value: object) -> Tree:
        """Give an id that was not in an answer by the same symbols."""
        return self._normaliser.symbol(field, value)

    def note(self, asked: str, answer: Tree) -> None:
        """Put something observed into the transcript."""
        self.transcript.append(Entry(asked, answer))

    def connection(self, name: str) -> RawClient:
        """Give a connection by name, opened when first named."""
        if name not in self._connections:
            self._connections[name] = RawClient(self.port)
        return self._connections[name]

    def hang_up(self, name: str) -> None:
        """End a connection as a client does that has died."""
        self._drop(name)

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _drop(self, name: str) -> None:
        self._connections.pop(name).close()


def _title(request: Message, version: int) -> str:
    return f"{type(request).__name__} v{version}"
