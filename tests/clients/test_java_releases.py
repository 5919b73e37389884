"""Java clients of each release, at a broker that emulates their release and at the default one."""

from __future__ import annotations

from typing import Any, Final

import pytest

from kafkalite.testing import Broker
from tests.clients.release_clients import run_on_release
from tests.oracle.releases import LATEST_PATCH

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(240)]

_CLASSIC_ONLY: Final = {"3.3", "3.4", "3.5", "3.6"}
_WITHOUT_SHARE_CONSUMER: Final = {*_CLASSIC_ONLY, "3.7", "3.8", "3.9", "4.0"}
_OPTIONAL_CONSUMER_PROTOCOL: Final = {"3.7", "3.8", "3.9"}
"""Releases whose brokers have the consumer protocol only if a setting enables it."""

_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def kinds_of(release: str) -> list[str]:
    """Return the kinds of consumers that a client has."""
    kinds = ["classic"]
    if release not in _CLASSIC_ONLY:
        kinds.append("consumer")
    if release not in _WITHOUT_SHARE_CONSUMER:
        kinds.append("share")
    return kinds


def settings_of(release: str) -> dict[str, Any]:
    """Return the topics and settings of a broker that emulates a release."""
    config = dict(_CONFIG)
    if release in _OPTIONAL_CONSUMER_PROTOCOL:
        config["group.coordinator.rebalance.protocols"] = "classic,consumer"
    if release == "4.1":
        config["share.version"] = "1"  # 4.1 has share groups, but new clusters have level 0
    return {"topics": {"orders": 1}, "config": config, "as_version": release}


def run_clients(release: str, *bootstraps: str) -> dict[str, str]:
    """Run each kind of client at each broker; return the values that it read."""
    kinds = ",".join(kinds_of(release))
    arguments = [f"{bootstrap},{kinds}" for bootstrap in bootstraps]
    return run_on_release(release, "ReleaseClients", *arguments)


@pytest.mark.parametrize("release", LATEST_PATCH)
def test_clients_work_with_their_release_and_the_default_one(release: str) -> None:
    with (
        Broker(**settings_of(release), log_level="error") as own,
        Broker(topics={"orders": 1}, config=_CONFIG, log_level="error") as default,
    ):
        read = run_clients(release, own.bootstrap_servers, default.bootstrap_servers)
    for number, broker in enumerate(("own", "default")):
        for kind in kinds_of(release):
            assert read[f"{number} {kind}"] == "idempotent,committed", (broker, kind)
