"""ScenarioCluster: connections to the cluster of a scenario, and a transcript of answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.conformance.normalization import Normaliser, Tree
from tests.conformance.raw import ConnectionClosedError, RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message

_CALL_TIMEOUT_S = 15.0
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer in a transcript."""

    title: str
    answer: Tree


@dataclass(slots=True)
class ScenarioCluster:
    """One broker of a cluster during one scenario, with its answers in normalized form."""

    port: int
    name: str
    ignored: frozenset[str] = frozenset()
    transcript: list[Entry] = field(default_factory=list)
    _normaliser: Normaliser = field(init=False)
    _connections: dict[str, RawClient] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._normaliser = Normaliser(self.ignored)

    def ask(self, request: Message, version: int, on: str = "main") -> Any:  # noqa: ANN401
        """Send a request, put its response into the transcript and return it.

        If the connection is closed instead, the transcript has that, and None is returned.
        """
        self.send(request, version, on)
        return self.receive(on, title=_title(request, version))

    def send(self, request: Message, version: int, on: str = "main") -> None:
        """Send a request whose response may be delayed."""
        self.connection(on).send(request, version)

    def receive(
        self, on: str = "main", *, title: str = "answer", answer_version: int | None = None
    ) -> Any:  # noqa: ANN401
        """Wait for the next answer on a connection and put it into the transcript."""
        try:
            response = self.connection(on).receive(answer_version)
        except ConnectionClosedError:
            self._drop(on)
            self.record(title, "the connection was closed")
            return None
        self.record(title, self._normaliser.tree(response))
        return response

    def probe(self, request: Message, version: int) -> Any:  # noqa: ANN401
        """Send a request without an entry in the transcript."""
        return self.connection("probe").call(request, version)

    def call_until(
        self,
        request: Message,
        version: int,
        until: Callable[[Any], bool],
        *,
        is_recorded: bool = True,
    ) -> Any:  # noqa: ANN401
        """Repeat a request until its response is as expected; put that one into the transcript.

        A real broker applies decisions of its controller with a delay.
        """
        deadline = time.monotonic() + _CALL_TIMEOUT_S
        while True:
            response = self.probe(request, version)
            if until(response) or time.monotonic() > deadline:
                if is_recorded:
                    self.record(_title(request, version), self._normaliser.tree(response))
                return response
            time.sleep(_PAUSE_S)

    def name_topic(self, topic_id: bytes, name: str) -> None:
        """Use the topic's name as the symbol of its id."""
        self._normaliser.name("topic_id", topic_id, f"id of {name}")

    def name_member(self, member_id: str, name: str) -> None:
        """Use a name as the symbol of a member id, for responses with members in any order."""
        self._normaliser.name("member_id", member_id, name)

    def tree(self, message: Message) -> Tree:
        """Convert a message that is not a response to plain values, with the same symbols."""
        return self._normaliser.tree(message)

    def symbol(self, field: str, value: object) -> Tree:
        """Return the symbol of an id that was not in a response."""
        return self._normaliser.symbol(field, value)

    def record(self, title: str, answer: Tree) -> None:
        """Add an entry to the transcript."""
        self.transcript.append(Entry(title, answer))

    def connection(self, name: str) -> RawClient:
        """Return a connection by name; it is opened at the first use."""
        if name not in self._connections:
            self._connections[name] = RawClient(self.port)
        return self._connections[name]

    def disconnect(self, name: str) -> None:
        """Close a connection without further requests."""
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
