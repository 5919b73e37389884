"""The clients of the scoreboards, and how each sweep is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.clients.admin import admin_sweep, franz_go_sweep, python_sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.admin import Sweep
    from tests.conformance.scoreboard.brokers import Address


class AdminClient(NamedTuple):
    """An admin client with a scoreboard."""

    name: str
    title: str
    sweep: Callable[[Address], Sweep]


CLIENTS: Final = (
    AdminClient(
        "java",
        "Java: `Admin` of kafka-clients 4.4.0",
        lambda address: admin_sweep(address.plaintext, address.sasl, address.controller),
    ),
    AdminClient(
        "confluent-kafka",
        "librdkafka: `AdminClient` of confluent-kafka",
        lambda address: python_sweep("confluent_admin", address.plaintext),
    ),
    AdminClient(
        "kafka-python",
        "kafka-python: `KafkaAdminClient`",
        lambda address: python_sweep("kafka_python_admin", address.plaintext),
    ),
    AdminClient(
        "franz-go",
        "franz-go: `Client` of kadm",
        lambda address: franz_go_sweep(address.plaintext, address.sasl),
    ),
)
