"""Transactional producers of each client library, as processes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.clients.client_libraries import franz_go_worker, java_classes, kafkajs_program
from tests.clients.process import DriverProcess
from tests.clients.release_clients import command_on_release
from tests.oracle.jars import java_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.clients.client_libraries import Command

_TIMEOUT_MS = 60_000
_REQUEST_TIMEOUT_MS = 30_000
_JAVA_CLASS = "TransactionalProducers"


class TransactionalProducers(DriverProcess):
    """See `tests.clients.drivers.producers.Producers`."""

    def init(
        self, name: str, transactional_id: str, request_timeout_ms: int = _REQUEST_TIMEOUT_MS
    ) -> None:
        self._ask(
            "init",
            name=name,
            transactional_id=transactional_id,
            timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=request_timeout_ms,
        )

    def begin(self, name: str) -> None:
        self._ask("begin", name=name)

    def send(self, name: str, topic: str, value: str) -> None:
        self._ask("send", name=name, topic=topic, value=value)

    def commit(self, name: str) -> None:
        self._ask("commit", name=name)

    def abort(self, name: str) -> None:
        self._ask("abort", name=name)


def _java() -> list[str]:
    return java_command(_JAVA_CLASS, classes=java_classes(), log_level="off")


def _python(client: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{client}_producers"]


COMMANDS: Mapping[str, Command] = {
    "librdkafka": _python("confluent"),
    "aiokafka": _python("aiokafka"),
    "kafka-python": _python("kafka_python"),
    "java": _java,
    "java-3.9": lambda: command_on_release("3.9", _JAVA_CLASS, classes=java_classes()),
    "kafkajs": lambda: kafkajs_program("producers.js"),
    "franz-go": lambda: [*franz_go_worker(), "producers"],
}
"""Client → what prepares its program, and returns the command that starts it."""
