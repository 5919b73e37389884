"""Quotas and SCRAM credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

CONFIGS = "kafka-configs"


def test_quotas_of_users_and_clients_are_set(tools: ToolRunner) -> None:
    both = ("--entity-type", "users", "--entity-type", "clients")
    names = ("--entity-name", "ann", "--entity-default")
    tools.ask(CONFIGS, "--alter", *both, *names, "--add-config", "producer_byte_rate=1e8")
    assert tools.ask(CONFIGS, "--describe", *both, *names).lines == [
        "Quota configs for user-principal 'ann', the default client-id are producer_byte_rate=1.0E8"
    ]
