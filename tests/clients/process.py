"""A driver program as a process: one JSON line out, one JSON line back, with a deadline."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from tests.clients.roster import driver_environment
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.clients.drivers.protocol import Event, ReadRow, SentRow
    from tests.clients.roster import Client

_ANSWER_TIMEOUT_S = 120.0
_CLOSE_TIMEOUT_S = 20.0


@contextmanager
def visiting(client: Client, bootstrap: str, directory: Path) -> Iterator[DriverProcess]:
    """Start a client's driver at a broker, or skip the test where there is no such client."""
    with required():
        command = client.command()
    log = directory / f"{client.name}.log"
    driver = DriverProcess([*command, bootstrap], log, driver_environment())
    try:
        yield driver
    finally:
        driver.close()


class ClientError(AssertionError):
    """What the client library raised, as the driver told it."""


class DriverProcess:
    """Speaks to one driver; its standard error goes to a file beside the test."""

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

    def produce(self, topic: str, codec: str, records: list[SentRow]) -> None:
        self._ask("produce", topic=topic, codec=codec, records=records)

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
        """Give what consumers did since the last call, partitions and offsets as numbers again."""
        return [
            _event(kind, consumer, detail)
            for kind, consumer, detail in cast("list[tuple[str, str, object]]", self._ask("events"))
        ]

    def close(self) -> None:
        """End the driver and wait; one that does not end is killed."""
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
        except (BrokenPipeError, queue.Empty) as silent:
            raise ClientError(
                f"{operation}: no answer ({silent!r}); {self._last_words()}"
            ) from None
        if not line:
            raise ClientError(f"{operation}: the driver ended; {self._last_words()}")
        answer = cast("dict[str, object]", json.loads(line))
        if "error" in answer:
            raise ClientError(f"{operation}: {answer['error']}")
        return answer["ok"]

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def _event(kind: str, consumer: str, detail: object) -> Event:
    if kind == "records":
        return kind, consumer, [_row(row) for row in cast("list[list[object]]", detail)]
    if kind == "commit":
        offsets = cast("dict[str, int]", detail)
        return kind, consumer, {int(partition): offset for partition, offset in offsets.items()}
    return kind, consumer, str(detail)


def _row(row: list[object]) -> ReadRow:
    return cast("ReadRow", tuple(row))
