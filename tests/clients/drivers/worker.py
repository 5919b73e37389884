"""A worker of a read-transform-write loop: each poll's records go through one transaction.

One JSON object as the only argument (`Task`); then one word per line in and one line out. In:
`hold` stops it inside its next transaction, records and offsets sent, until `go`; `abort` has it
abort that one; `close` or the end of the input ends it. Out: `ready` once its transactional id is
its own, `held`, `committed N`, `aborted`, `fenced WHY` and `failed WHY` as last words. Workers in
other languages do the same; what is read, kept and compared is in `tests.clients.transacting`.
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
    """What a worker is given; a partition goes to the partition of the same number."""

    bootstrap: str
    transactional_id: str
    group: str
    protocol: str
    """"classic" or "consumer"; "assigned" if the group is its own, with `partitions` alone."""
    source: str
    sink: str
    partitions: list[int]
    batch: int
    """Records of a transaction, at most."""


def given_task() -> Task:
    """Return the task on the command line."""
    return Task(**json.loads(sys.argv[1]))


def say(line: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class FencedError(Exception):
    """Another producer has this one's transactional id."""


class AbortableError(Exception):
    """The transaction cannot be committed; the producer goes on after aborting it."""


class Orders:
    """What the test wants of the worker, as it comes in."""

    def __init__(self) -> None:
        self.is_over = False
        self._is_to_hold = threading.Event()
        self._is_to_abort = threading.Event()
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def obey_inside(self) -> bool:
        """Hold a transaction that is ready if that was ordered; say whether to abort it."""
        if self._is_to_hold.is_set():
            self._is_to_hold.clear()
            say("held")
            self._go.get()
        is_to_abort = self._is_to_abort.is_set()
        self._is_to_abort.clear()
        return is_to_abort

    def _listen(self) -> None:
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
        """Write what becomes of records."""

    def send_offsets(self, rows: list[ReadRow]) -> None:
        """Make the group's progress part of the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction and go back to what is committed."""

    def close(self) -> None:
        """Leave."""


def work(link: Link) -> None:
    """Work until told to end; `link` has its transactional id already."""
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
    """Say why, and end at once: a fenced producer may wait for its coordinator for good."""
    traceback.print_exception(failure)
    sys.stderr.flush()
    kind = "fenced" if isinstance(failure, FencedError) else "failed"
    say(f"{kind} {failure!r}".replace("\n", " "))
    os._exit(1)


def after_these(rows: list[ReadRow]) -> dict[int, int]:
    """Return the offset behind the records of each partition."""
    return {partition: offset + 1 for partition, offset, _key, _value in rows}


def transformed(value: str | None) -> str:
    """Return what a record becomes."""
    return f"{value}!"
