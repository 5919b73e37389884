"""A group member as a thread: poll, log, commit, until it is removed.

The two blocking Python clients differ only in the five calls of `Consumer`.
"""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, Protocol

from tests.clients.drivers.protocol import EventLog

if TYPE_CHECKING:
    from tests.clients.drivers.protocol import ReadRow


class CommitRefusedError(Exception):
    """The coordinator refused a commit, as while the group is rebalancing; it is retried."""


class Consumer(Protocol):
    """One subscribed consumer of a client library."""

    def poll(self) -> list[ReadRow]:
        """Wait a moment for records."""

    def commit(self) -> dict[int, int]:
        """Commit the polled records, wait, and return the acknowledged offsets."""

    def assignment(self) -> list[int]:
        """Return the assigned partitions."""

    def close(self) -> None:
        """Leave the group."""


class Members:
    """The running group members of a driver."""

    def __init__(self) -> None:
        self.log = EventLog()
        self._members: dict[str, _Member] = {}

    def add(self, name: str, consumer: Consumer) -> None:
        """Start a member's thread."""
        self._members[name] = _Member(name, consumer, self.log)

    def remove(self, name: str) -> None:
        """Stop a member and wait until it has left."""
        self._members.pop(name).leave()

    def assignments(self) -> dict[str, list[int]]:
        """Return each member's partitions after its last poll."""
        return {name: member.assigned for name, member in self._members.items()}

    def close(self) -> None:
        """Stop every member."""
        for name in list(self._members):
            self.remove(name)


class _Member:
    def __init__(self, name: str, consumer: Consumer, log: EventLog) -> None:
        self.assigned: list[int] = []
        self._name = name
        self._consumer = consumer
        self._log = log
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._consume()
        except Exception:  # noqa: BLE001 - the test checks what the client raised
            self._log.add("error", self._name, traceback.format_exc())
        finally:
            self._consumer.close()

    def _consume(self) -> None:
        is_dirty = False
        while not self._leaving.is_set():
            rows = self._consumer.poll()
            self.assigned = self._consumer.assignment()
            if rows:
                self._log.add("records", self._name, rows)
            if rows or is_dirty:
                is_dirty = not self._committed()
        if is_dirty:
            self._committed()

    def _committed(self) -> bool:
        try:
            self._log.add("commit", self._name, self._consumer.commit())
        except CommitRefusedError as refused:
            self._log.add("refused", self._name, str(refused))
            return False
        return True
