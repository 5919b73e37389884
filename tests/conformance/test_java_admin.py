"""Every call of the Java Admin client has the same result with kafkalite and with a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.clients.admin import Answer, admin_sweep
from tests.conformance.compare import tree_differences
from tests.conformance.scenarios.configs import OWN_KEYS, PLACES
from tests.conformance.scenarios.connection import SERVED_FEATURES
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from tests.conformance.normalization import Tree
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle


def _comparable(sweep: dict[str, Answer]) -> dict[str, Answer]:
    """Remove addresses, features that are not served, and settings that Kafka does not have."""
    broker = cast("dict[str, Answer]", sweep["describeConfigs broker"])
    sweep["describeConfigs broker"] = {
        name: entry for name, entry in broker.items() if name not in PLACES | OWN_KEYS
    }
    features = cast("dict[str, dict[str, Answer]]", sweep["describeFeatures"])
    for level_kind in ("supported", "finalized"):
        features[level_kind] = {name: features[level_kind][name] for name in SERVED_FEATURES}
    return sweep


def test_every_admin_call_gets_the_same_answer(real_kafka: Target, emulator: Target) -> None:
    with required():
        real = _comparable(admin_sweep(real_kafka.bootstrap))
    emulated = _comparable(admin_sweep(emulator.bootstrap))
    lines = tree_differences("admin", cast("Tree", real), cast("Tree", emulated))
    assert not lines, "\n".join(lines)
