"""The Java Admin client gets from kafkalite what it gets from a real Kafka, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.clients.admin import Answer, admin_sweep
from tests.conformance.compare import tree_differences
from tests.conformance.scenarios.configs import PLACES
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle


def _comparable(sweep: dict[str, Answer]) -> dict[str, Answer]:
    """Take out where a broker runs: its addresses, its directories."""
    broker = cast("dict[str, Answer]", sweep["describeConfigs broker"])
    sweep["describeConfigs broker"] = {
        name: entry for name, entry in broker.items() if name not in PLACES
    }
    return sweep


def test_every_admin_call_is_answered_alike(real_kafka: Target, accused: Target) -> None:
    with required():
        real = _comparable(admin_sweep(real_kafka.bootstrap))
    ours = _comparable(admin_sweep(accused.bootstrap))
    found = tree_differences("admin", real, ours)
    assert not found, "\n".join(found)
