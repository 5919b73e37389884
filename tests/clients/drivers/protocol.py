"""The protocol of drivers: requests and answers as one JSON object per line, in order.

A driver is simple: it makes one client call per request and reports the result.
The scenario, the expectations and the comparisons are in `tests.clients.client_scenario`, once for
all languages. The requests (`op` and its arguments) are the methods of `Driver`; the answer is
`{"ok": value}` or `{"error": text}`.  Records are `[partition, key, value]` in requests and
`[partition, offset, key, value]` in answers.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from typing import Protocol, TypeAlias

SentRow: TypeAlias = tuple[int, str | None, str | None]
ReadRow: TypeAlias = tuple[int, int, str | None, str | None]
Event: TypeAlias = tuple[str, str, list[ReadRow] | dict[int, int] | str]


class Driver(Protocol):
    """The operations of every client library."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; return when the client has its metadata."""

    def produce(
        self, topic: str, codec: str, records: list[SentRow], *, is_idempotent: bool = False
    ) -> None:
        """Produce records, each to its partition, acks=all; return when all are acknowledged.

        Only some drivers know `is_idempotent`; producers of Java and franz-go always are.
        """

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        """Read that many records from the beginning, without a group."""

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        """Start a consumer that reads and commits in the background until it leaves.

        Protocols are "classic", "consumer", and for some clients "cooperative", which is the
        classic one with a cooperative assignor.
        """

    def leave(self, consumer: str) -> None:
        """Commit pending offsets, leave the group and close."""

    def members(self) -> dict[str, list[int]]:
        """Return each running consumer's assigned partitions."""

    def events(self) -> list[Event]:
        """Return the events of consumers since the last call, in order."""

    def close(self) -> None:
        """Close every client."""


class EventLog:
    """The events of one driver's consumers, in a common order.

    A record is logged when the client returns it, a commit when the broker has acknowledged it.
    So a record below an acknowledged commit appears after that only if the commit was lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, kind: str, consumer: str, detail: list[ReadRow] | dict[int, int] | str) -> None:
        """Log one event: `records`, `commit`, `refused` (a commit, by a rebalance) or `error`."""
        with self._lock:
            self._events.append((kind, consumer, detail))

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        with self._lock:
            events, self._events = self._events, []
            return events


class Closable(Protocol):
    """An object with operations that can be closed."""

    def close(self) -> None:
        """End."""


def serve(driver: Closable) -> None:
    """Answer requests from standard input until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        operation = request.pop("op")
        try:
            answer = {"ok": getattr(driver, operation)(**request)}
        except Exception:  # noqa: BLE001 - reported to the test
            answer = {"error": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    driver.close()
