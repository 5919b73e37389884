"""The Java Admin client gets from kafkalite what it gets from a real Kafka, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.clients.admin import Answer, admin_sweep
from tests.conformance.compare import tree_differences
from tests.conformance.scenarios.configs import OWN_KEYS, PLACES
from tests.conformance.scenarios.connection import SERVED_FEATURES
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from tests.conformance.normal import Tree
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle


def _comparable(sweep: dict[str, Answer]) -> dict[str, Answer]:
    """Take out where a broker runs, what it does not serve, and settings Kafka does not have."""
    broker = cast("dict[str, Answer]", sweep["describeConfigs broker"])
    sweep["describeConfigs broker"] = {
        name: entry for name, entry in broker.items() if name not in PLACES | OWN_KEYS
    }
    features = cast("dict[str, dict[str, Answer]]", sweep["describeFeatures"])
    for kind in ("supported", "finalized"):
        features[kind] = {name: features[kind][name] for name in SERVED_FEATURES}
    return sweep


def test_every_admin_call_is_answered_alike(real_kafka: Target, accused: Target) -> None:
    with required():
        real = _comparable(admin_sweep(real_kafka.bootstrap))
    ours = _comparable(admin_sweep(accused.bootstrap))
    found = tree_differences("admin", cast("Tree", real), cast("Tree", ours))
    assert not found, "\n".join(found)
