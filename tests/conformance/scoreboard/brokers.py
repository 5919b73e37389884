"""The two brokers of the scoreboards: a real Kafka, and kafkalite with the same listeners."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.conformance.sasl_kafka import kafka_with_sasl, kafkalite_with_sasl
from tests.oracle.jars import compiled
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from tests.oracle.target import Target

    T = TypeVar("T")

_TELEMETRY_RECEIVER: Final = Path(__file__).parents[1] / "telemetry_receiver"


class Address(NamedTuple):
    """The listeners of a broker; the users of both are administrators."""

    plaintext: str
    sasl: str
    controller: str


class Pair(NamedTuple):
    """The addresses of a real Kafka and of kafkalite."""

    real: Address
    emulated: Address

    def run(self, function: Callable[[Address], T]) -> tuple[T, T]:
        """Call a function with both addresses at the same time; return the results."""
        with ThreadPoolExecutor(len(self)) as pool:
            real, emulated = pool.map(function, self)
        return real, emulated


@contextmanager
def brokers(directory: Path) -> Iterator[Pair]:
    """Start both brokers; both receive the metrics of clients."""
    ports = free_port(), free_port()
    controller = f"127.0.0.1:{free_port()}"
    kafka = kafka_with_sasl(
        directory / "kafka",
        ports[0],
        settings={"metric.reporters": "TelemetryReceiver"},
        classes=compiled(_TELEMETRY_RECEIVER),
    )
    emulator = kafkalite_with_sasl(
        directory / "kafkalite",
        ports[1],
        controller,
        settings={"kafkalite.client.telemetry": "true"},
    )
    targets: tuple[Target, Target] = (kafka, emulator)
    try:
        with ThreadPoolExecutor(len(targets)) as pool:
            list(pool.map(lambda target: target.start(), targets))
        yield Pair(
            *(
                Address(target.bootstrap, f"127.0.0.1:{port}", address)
                for target, port, address in zip(
                    targets, ports, (kafka.controller, controller), strict=True
                )
            )
        )
    finally:
        for target in targets:
            target.kill()
