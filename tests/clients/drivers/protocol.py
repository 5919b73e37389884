"""What a driver is asked and what it answers: one JSON object per line, in order.

A driver is dumb on purpose: it does one client call per request and reports what it saw.
The story, the expectations and the comparisons are in `tests.clients.story`, once for all
languages.  The requests (`op` and its arguments) are the methods of `Driver`; the answer is
`{"ok": value}` or `{"error": text}`.  Records travel as `[partition, key, value]` going in and
`[partition, offset, key, value]` coming out.
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
    """What every client library can be told to do."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and return when the client knows it."""

    def produce(self, topic: str, codec: str, records: list[SentRow]) -> None:
        """Produce records, each to its partition, acks=all; return when all are acknowledged."""

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        """Read that many records from the beginning, without a group."""

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        """Start a consumer that reads and commits in the background until it leaves.

        Protocols are "classic", "consumer", and for those who know it "cooperative", which is the
        classic one with an assignor that takes from members only what others are to have.
        """

    def leave(self, consumer: str) -> None:
        """Commit what is outstanding, leave the group and close."""

    def members(self) -> dict[str, list[int]]:
        """Give each running consumer's assigned partitions."""

    def events(self) -> list[Event]:
        """Give what consumers did since the last call, in order."""

    def close(self) -> None:
        """Close every client."""


class EventLog:
    """What the consumers of one driver did, in one order for all of them.

    A record is logged when the client hands it out, a commit when the broker has acknowledged
    it; so a record below an acknowledged commit can never appear after it unless a commit was
    lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, kind: str, consumer: str, detail: list[ReadRow] | dict[int, int] | str) -> None:
        """Log one event: `records`, `commit`, `refused` (a commit, by a rebalance) or `error`."""
        with self._lock:
            self._events.append((kind, consumer, detail))

    def take(self) -> list[Event]:
        """Give the events since the last call."""
        with self._lock:
            events, self._events = self._events, []
            return events


class Closable(Protocol):
    """Whatever has operations for names, and ends."""

    def close(self) -> None:
        """End."""


def serve(driver: Closable) -> None:
    """Answer requests from standard input until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        operation = request.pop("op")
        try:
            answer = {"ok": getattr(driver, operation)(**request)}
        except Exception:  # noqa: BLE001 - whatever a client raises is told to the test
            answer = {"error": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    driver.close()
