"""The command that sets quotas."""

from __future__ import annotations

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.quotas import SetQuotas
from kafkalite.testing import Broker

RATE = "producer_byte_rate"
CLIENT = ("client-id", "reports")


def test_quotas_of_each_kind_of_entity_are_set() -> None:
    with Broker() as broker:
        broker.set_quotas(client_id="reports", producer_byte_rate=10_000, request_percentage=50)
        broker.set_quotas(user="ann", client_id="reports", consumer_byte_rate=1)
        broker.set_quotas(ip="127.0.0.1", connection_creation_rate=2)
        cluster = broker._running_broker().cluster
        assert cluster is not None
        quotas = cluster.metadata.image.client_quotas
    assert {entity: dict(given) for entity, given in quotas.items()} == {
        frozenset({CLIENT}): {RATE: 10_000.0, "request_percentage": 50.0},
        frozenset({CLIENT, ("user", "ann")}): {"consumer_byte_rate": 1.0},
        frozenset({("ip", "127.0.0.1")}): {"connection_creation_rate": 2.0},
    }


def test_an_unknown_quota_is_refused() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="produce_rate"):
        broker.set_quotas(client_id="reports", produce_rate=1)


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"quotas": {RATE: 1.0}}, "client_id"), ({"quotas": {}, "user": "ann"}, "producer_byte_rate")],
)
def test_a_command_without_entity_or_quota_is_refused(
    given: dict[str, object], missing: str
) -> None:
    with pytest.raises(CommandError, match=missing):
        SetQuotas(**given)  # type: ignore[arg-type]  # as a parsed body has it
