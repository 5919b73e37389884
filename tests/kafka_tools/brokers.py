"""The two brokers of the comparison of tools, with ACLs, users and delegation tokens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.conformance.sasl_kafka import kafka_with_sasl, kafkalite_with_sasl
from tests.kafka_tools.cases import FILES
from tests.kafka_tools.sides import Side, placeholders
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAKg"


@contextmanager
def kafka_side(directory: Path) -> Iterator[Side]:
    """Start a real Kafka."""
    kafka = kafka_with_sasl(directory / "kafka", sasl_port := free_port())
    try:
        kafka.start()
        with _side(directory, kafka.bootstrap, kafka.controller, sasl_port, kafka.data) as side:
            yield side
    finally:
        kafka.kill()


@contextmanager
def kafkalite_side(directory: Path) -> Iterator[Side]:
    """Start kafkalite with the settings of that Kafka."""
    sasl_port = free_port()
    controller = f"127.0.0.1:{free_port()}"
    kafkalite = kafkalite_with_sasl(directory / "kafkalite", sasl_port, controller)
    try:
        kafkalite.start()
        with _side(directory, kafkalite.bootstrap, controller, sasl_port, kafkalite.data) as side:
            yield side
    finally:
        kafkalite.kill()


@contextmanager
def _side(
    directory: Path, bootstrap: str, controller: str, sasl_port: int, data: Path
) -> Iterator[Side]:
    names = {
        **placeholders(bootstrap, controller),
        "sasl": f"127.0.0.1:{sasl_port}",
        "id": _UNKNOWN_ID,
        "data": str(data),
        "files": str(directory / "files"),
    }
    (directory / "files").mkdir(parents=True)
    for name, text in FILES.items():
        (directory / "files" / name).write_text(_filled(text, names))
    side = Side(names)
    try:
        yield side
    finally:
        side.close()


def _filled(text: str, names: Mapping[str, str]) -> str:
    """Replace the placeholders of a file, whose other braces belong to JSON."""
    for placeholder, value in names.items():
        text = text.replace(f"{{{placeholder}}}", value)
    return text
