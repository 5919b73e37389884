"""The two brokers of the comparison of tools, with ACLs, users and delegation tokens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tests.conformance.sasl_kafka import kafka_with_sasl, kafkalite_with_sasl
from tests.kafka_tools.cases import FILES
from tests.kafka_tools.sides import JavaSide, placeholders
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.kafka_tools.sides import Side

AnySide = TypeVar("AnySide", bound="Side")
_UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAKg"


@contextmanager
def kafka_side(directory: Path) -> Iterator[JavaSide]:
    """Start a real Kafka."""
    kafka = kafka_with_sasl(directory / "kafka", sasl_port := free_port())
    try:
        kafka.start()
        addresses = (kafka.bootstrap, kafka.controller, sasl_port)
        with _side(JavaSide, directory, addresses, kafka.data) as side:
            yield side
    finally:
        kafka.kill()


@contextmanager
def kafkalite_side(directory: Path, tools: type[AnySide]) -> Iterator[AnySide]:
    """Start kafkalite with the settings of that Kafka; `tools` are those that run there."""
    sasl_port = free_port()
    controller = f"127.0.0.1:{free_port()}"
    kafkalite = kafkalite_with_sasl(directory / "kafkalite", sasl_port, controller)
    try:
        kafkalite.start()
        addresses = (kafkalite.bootstrap, controller, sasl_port)
        with _side(tools, directory, addresses, kafkalite.data) as side:
            yield side
    finally:
        kafkalite.kill()


@contextmanager
def _side(
    tools: type[AnySide],
    directory: Path,
    addresses: tuple[str, str, int],
    data: Path,
) -> Iterator[AnySide]:
    bootstrap, controller, sasl_port = addresses
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
    side = tools(names)
    try:
        yield side
    finally:
        side.close()


def _filled(text: str, names: Mapping[str, str]) -> str:
    """Replace the placeholders of a file, whose other braces belong to JSON."""
    for placeholder, value in names.items():
        text = text.replace(f"{{{placeholder}}}", value)
    return text
