"""Drives Python clients, kcat and Kafka's tools with the settings of a secured listener.

Each request writes one record and reads it in a group. The answer is the value that was read, or
the error of the client together with what the client logged.
"""

from __future__ import annotations

import asyncio
import io
import logging
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.clients.drivers.protocol import serve
from tests.clients.security_cells import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kafka_tools.java_tools import JavaTools

_TIMEOUT_S = 30.0
_PROGRAM_TIMEOUT_S = 100.0
_REFUSED_TIMEOUT_S = 0.5
"""The time in which kafka-python, which retries, repeats its attempts."""


class SecurityDriver:
    """Exchanges one record with a broker by one client."""

    def __init__(self, exchange: Callable[[Connection, str, str, str], str]) -> None:
        self._exchange = exchange

    def exchange(self, connection: dict[str, Any], topic: str, group: str, value: str) -> str:
        """Write a value, and return it as read by the group."""
        with logged_warnings() as log:
            try:
                return self._exchange(Connection.from_json(connection), topic, group, value)
            except Exception as error:
                raise RuntimeError(log.getvalue()) from error

    def close(self) -> None:
        """End the tools; nothing else is open between requests."""
        if java_tools.cache_info().currsize:
            java_tools().close()


@contextmanager
def logged_warnings() -> Iterator[io.StringIO]:
    """Collect the warnings that a client logs."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    try:
        yield text
    finally:
        root.removeHandler(handler)


def by_confluent_kafka(connection: Connection, topic: str, group: str, value: str) -> str:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer  # noqa: PLC0415

    errors: list[KafkaError] = []
    settings = {**connection.settings("librdkafka"), "error_cb": errors.append, "log_level": 0}
    end_s = time.monotonic() + _TIMEOUT_S
    producer = Producer(settings)
    producer.produce(topic, value.encode())
    while len(producer) and not errors and time.monotonic() < end_s:
        producer.poll(0.05)
    if errors:
        raise KafkaException(errors[0])
    reader = {"group.id": group, "auto.offset.reset": "earliest", "error_cb": errors.append}
    consumer = Consumer({**settings, **reader})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(_TIMEOUT_S)
        if message is None or message.error() is not None:
            raise TimeoutError(errors)
        consumer.commit(message=message, asynchronous=False)
        return (message.value() or b"").decode()
    finally:
        consumer.close()


def by_aiokafka(connection: Connection, topic: str, group: str, value: str) -> str:
    import aiokafka  # noqa: PLC0415
    from aiokafka.abc import AbstractTokenProvider  # noqa: PLC0415

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return str(token)

    settings = connection.settings("aiokafka")
    token = settings.get("sasl_oauth_token_provider", "")
    if token:
        settings["sasl_oauth_token_provider"] = Provider()

    async def run() -> str:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, value.encode())
        finally:
            await producer.stop()  # also after a start that failed
        async with aiokafka.AIOKafkaConsumer(
            topic, **settings, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            record = await consumer.getone()
            await consumer.commit()
            return str((record.value or b"").decode())

    return asyncio.run(asyncio.wait_for(run(), _TIMEOUT_S))


def by_kafka_python(connection: Connection, topic: str, group: str, value: str) -> str:
    from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return str(token)

        def extensions(self) -> dict[str, str]:
            return {}

    settings = connection.settings("kafka-python")
    settings["bootstrap_timeout_ms"] = _REFUSED_TIMEOUT_S * 1000
    token = settings.get("sasl_oauth_token_provider", "")
    if token:
        settings["sasl_oauth_token_provider"] = Provider()
    producer = KafkaProducer(**settings)
    producer.send(topic, value.encode()).get(_TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, **settings, group_id=group, auto_offset_reset="earliest",
        consumer_timeout_ms=_TIMEOUT_S * 1000,
    )  # fmt: skip
    try:
        record = next(consumer)
        consumer.commit()
        return str(record.value.decode())
    finally:
        consumer.close()


def by_kcat(connection: Connection, topic: str, group: str, value: str) -> str:
    command = ["kcat"]
    for key, setting in connection.settings("librdkafka").items():
        command += ["-X", f"{key}={setting}"]
    run_program([*command, "-P", "-t", topic], value + "\n")
    reader = ["-q", "-X", "auto.offset.reset=earliest", "-c", "1", "-G", group, topic]
    return run_program([*command, *reader]).strip()


@cache
def java_tools() -> JavaTools:
    """Start the process that runs the tools of all requests."""
    from tests.kafka_tools.java_tools import JavaTools  # noqa: PLC0415

    return JavaTools(log_level="warn")


def by_tools(connection: Connection, topic: str, group: str, value: str) -> str:
    from tests.clients.tools import MAIN_CLASSES  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        properties = Path(directory) / "client.properties"
        settings = connection.settings("java")
        address = settings.pop("bootstrap.servers")
        properties.write_text(
            "".join(f"{key}={escaped(str(text))}\n" for key, text in settings.items())
        )
        common = ("--bootstrap-server", address, "--command-config", str(properties))

        def run(name: str, *options: str, text: str = "") -> str:
            main, arguments = MAIN_CLASSES[name], [*common, *options]
            done = java_tools().ask("run", name, main=main, arguments=arguments, input=text)
            if done["status"]:
                raise ChildProcessError(done["stdout"] + done["stderr"])
            return str(done["stdout"])

        assert topic in run("kafka-topics", "--list").split()
        run("kafka-console-producer", "--topic", topic, text=value + "\n")
        reader = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1")
        return run("kafka-console-consumer", *reader).strip()


def escaped(text: str) -> str:
    """Return a value as Java's properties files write it."""
    return text.replace("\\", "\\\\")


def run_program(command: list[str], text: str = "") -> str:
    """Run a program, and return its output; raises ChildProcessError with it after a failure."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_PROGRAM_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise ChildProcessError(done.stdout + done.stderr)
    return done.stdout


EXCHANGES = {
    "confluent-kafka": by_confluent_kafka,
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
    "kcat": by_kcat,
    "tools": by_tools,
}

if __name__ == "__main__":
    serve(SecurityDriver(EXCHANGES[sys.argv[1]]))
