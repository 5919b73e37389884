"""A broker that presents itself as a release has the ApiVersions response of that release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing import Broker
from tests.conformance.advertised import ApiVersions, api_versions
from tests.conformance.scenario_runs import at, compared
from tests.conformance.scenarios import old_versions, removed_settings, unknown_settings
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.oracle


def different_rows(real: ApiVersions, emulated: ApiVersions) -> set[str]:
    """Return the APIs of kafkalite and the features that differ."""
    rows = {f"API {ApiKey(key).name}" for key, versions in emulated.apis.items()
            if real.apis.get(key) != versions}  # fmt: skip
    for one, other in (
        (real.supported, emulated.supported),
        (real.finalized, emulated.finalized),
    ):
        rows |= {f"feature {name}" for name, _ in one.items() ^ other.items()}
    return rows


def compare(real_port: int, release: str, versions: Sequence[int] = (3, 4)) -> None:
    with Broker(as_version=release) as broker:
        for version in versions:
            real = api_versions(real_port, version)
            emulated = api_versions(int(broker.bootstrap_servers.rpartition(":")[2]), version)
            assert not different_rows(real, emulated)


def test_the_default_release_is_presented_like_kafka(real_kafka: RealKafka) -> None:
    compare(real_kafka.port, DEFAULT, (3, 4, 5))


@pytest.mark.endurance
def test_an_older_release_is_presented_like_kafka(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, release=LATEST_PATCH["4.2"])
        kafka.start()
    try:
        compare(kafka.port, "4.2")
        with Broker(as_version="4.2") as broker:
            differences = [
                compared(each, kafka, at(broker), "4.2") for each in unknown_settings.SCENARIOS
            ]
    finally:
        kafka.kill()
    assert not any(differences), "\n".join(differences)


_OF_3_9 = (*removed_settings.SCENARIOS, *old_versions.SCENARIOS)
_SHARE_DEFAULTS = {
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.min.record.lock.duration.ms": "15000",
}
"""Values for Kafka 3.9, which refuses kafkalite's own defaults of these settings."""


@pytest.mark.endurance
def test_what_4_0_removed_is_answered_as_by_3_9(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, _SHARE_DEFAULTS, release=LATEST_PATCH["3.9"])
        kafka.start()
    try:
        with Broker(as_version="3.9") as broker:
            differences = [compared(each, kafka, at(broker), "3.9") for each in _OF_3_9]
    finally:
        kafka.kill()
    assert not any(differences), "\n".join(differences)
