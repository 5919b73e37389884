"""A worker of a read-transform-write loop: each poll's records go through one transaction.

The only argument is a JSON object (`Task`). The worker reads orders and prints reports, one per
line. Orders: `hold` makes it wait inside its next transaction, after it sent records and offsets,
until `go`; `abort` makes it abort that transaction; `close` or the end of the input stops it.
Reports: `ready` after its initialisation, `held`, `committed N`, `aborted`, and at the end
`fenced REASON` or `failed REASON`. Workers in other languages do the same. The test in
`tests.clients.exactly_once_scenario` checks input and output.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from tests.clients.drivers.protocol import ReadRow

SESSION_TIMEOUT_MS = 1_500
HEARTBEAT_MS = 300
TRANSACTION_TIMEOUT_MS = 60_000


class Task(NamedTuple):
    """The arguments of a worker; output partitions have the numbers of input partitions."""

    bootstrap: str
    transactional_id: str
    group: str
    protocol: str
    """"classic", "consumer", or "assigned" for a separate group that has only `partitions`."""
    source: str
    sink: str
    partitions: list[int]
    batch: int
    """Maximum number of records of a transaction."""


def given_task() -> Task:
    """Return the task on the command line."""
    return Task(**json.loads(sys.argv[1]))


def say(line: str) -> None:
    """Report a line to the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class FencedError(Exception):
    """Another producer has this one's transactional id."""


class AbortableError(Exception):
    """The transaction cannot be committed; the producer continues after aborting it."""


class Orders:
    """Orders of the test to the worker."""

    def __init__(self) -> None:
        self.is_over = False
        self._is_to_hold = threading.Event()
        self._is_to_abort = threading.Event()
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._read_output, daemon=True).start()

    def obey_inside(self) -> bool:
        """Hold a complete transaction if that was ordered; return whether to abort it."""
        if self._is_to_hold.is_set():
            self._is_to_hold.clear()
            say("held")
            self._go.get()
        is_to_abort = self._is_to_abort.is_set()
        self._is_to_abort.clear()
        return is_to_abort

    def _read_output(self) -> None:
        orders = {"hold": self._is_to_hold, "abort": self._is_to_abort}
        for order in map(str.strip, sys.stdin):
            if order == "close":
                break
            if order == "go":
                self._go.put(None)
            else:
                orders[order].set()
        self.is_over = True
        self._go.put(None)


class Link(Protocol):
    """A consumer and a transactional producer of a client library that blocks."""

    def poll(self) -> list[ReadRow]:
        """Wait a moment for records."""

    def begin(self) -> None:
        """Begin a transaction."""

    def write(self, rows: list[ReadRow]) -> None:
        """Write transformed records."""

    def send_offsets(self, rows: list[ReadRow]) -> None:
        """Add the group's offsets to the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction and seek to the committed offsets."""

    def close(self) -> None:
        """Leave."""


def work(link: Link) -> None:
    """Work until the order to stop; `link` is already initialised."""
    orders = Orders()
    say("ready")
    while not orders.is_over:
        rows = link.poll()
        if rows:
            _transact(link, rows, orders)
    link.close()


def _transact(link: Link, rows: list[ReadRow], orders: Orders) -> None:
    try:
        link.begin()
        link.write(rows)
        link.send_offsets(rows)
        if not orders.obey_inside():
            link.commit()
            say(f"committed {len(rows)}")
            return
    except AbortableError as reason:
        sys.stderr.write(f"{reason}\n")
    link.abort()
    say("aborted")


def last_words(failure: BaseException) -> NoReturn:
    """Print the reason and exit at once: a fenced producer may wait for its coordinator forever."""
    traceback.print_exception(failure)
    sys.stderr.flush()
    kind = "fenced" if isinstance(failure, FencedError) else "failed"
    say(f"{kind} {failure!r}".replace("\n", " "))
    os._exit(1)


def after_these(rows: list[ReadRow]) -> dict[int, int]:
    """Return the offset after the records of each partition."""
    return {partition: offset + 1 for partition, offset, _key, _value in rows}


def transformed(value: str | None) -> str:
    """Return the transformed value of a record."""
    return f"{value}!"
