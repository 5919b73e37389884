"""A driver program as a process: it answers each JSON line with one, within a deadline."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from tests.clients.client_libraries import driver_environment
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.clients.client_libraries import Client
    from tests.clients.drivers.protocol import Event, ReadRow, SentRow

_ANSWER_TIMEOUT_S = 120.0
_CLOSE_TIMEOUT_S = 20.0


@contextmanager
def running_driver(client: Client, bootstrap: str, directory: Path) -> Iterator[DriverProcess]:
    """Start a client's driver with a broker, or skip the test if the client is missing."""
    with required():
        command = client.command()
    log = directory / f"{client.name}.log"
    driver = DriverProcess([*command, bootstrap], log, driver_environment())
    try:
        yield driver
    finally:
        driver.close()


class ClientError(AssertionError):
    """An exception of the client library, as reported by the driver."""


class DriverProcess:
    """Calls one driver process; its standard error goes to a file."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=dict(environment),
            )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()

    def create_topic(self, topic: str, partitions: int) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions)

    def produce(
        self, topic: str, codec: str, records: list[SentRow], *, is_idempotent: bool = False
    ) -> None:
        optional = {"is_idempotent": True} if is_idempotent else {}
        self._ask("produce", topic=topic, codec=codec, records=records, **optional)

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        answer = self._ask("read", topic=topic, partitions=partitions, count=count)
        return [_row(row) for row in cast("list[list[object]]", answer)]

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        self._ask("join", consumer=consumer, group=group, topic=topic, protocol=protocol)

    def leave(self, consumer: str) -> None:
        self._ask("leave", consumer=consumer)

    def members(self) -> dict[str, list[int]]:
        return cast("dict[str, list[int]]", self._ask("members"))

    def events(self) -> list[Event]:
        """Return the events of consumers since the last call, with offsets as numbers."""
        return [
            _event(event_type, consumer, detail)
            for event_type, consumer, detail in cast(
                "list[tuple[str, str, object]]", self._ask("events")
            )
        ]

    def exchange(self, topic: str, group: str, value: str, **connection: object) -> str:
        """Write a value, and return it as read by the group; for drivers of secured listeners."""
        answer = self._ask("exchange", topic=topic, group=group, value=value, **connection)
        return cast("str", answer)

    def close(self) -> None:
        """End the driver and wait; kill it if it does not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _ask(self, operation: str, **arguments: object) -> object:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
        except (BrokenPipeError, queue.Empty) as failure:
            raise ClientError(f"{operation}: no answer ({failure!r}); {self._log_tail()}") from None
        if not line:
            raise ClientError(f"{operation}: the driver ended; {self._log_tail()}")
        answer = cast("dict[str, object]", json.loads(line))
        if "error" in answer:
            raise ClientError(f"{operation}: {answer['error']}")
        return answer["ok"]

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def _event(event_type: str, consumer: str, detail: object) -> Event:
    if event_type == "records":
        return event_type, consumer, [_row(row) for row in cast("list[list[object]]", detail)]
    if event_type == "commit":
        offsets = cast("dict[str, int]", detail)
        return (
            event_type,
            consumer,
            {int(partition): offset for partition, offset in offsets.items()},
        )
    return event_type, consumer, str(detail)


def _row(row: list[object]) -> ReadRow:
    return cast("ReadRow", tuple(row))
