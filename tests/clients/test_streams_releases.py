"""Kafka Streams of each release, at a broker that emulates its release and at the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.testing import Broker
from tests.clients.release_clients import run_on_release
from tests.oracle.releases import LATEST_PATCH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(240)]

_WITHOUT_GROUP_TYPES: Final = {"3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"}
"""Releases whose clients list consumer groups only."""
_WITHOUT_STREAMS_PROTOCOL: Final = {*_WITHOUT_GROUP_TYPES, "4.0"}
_UNDER_DEVELOPMENT: Final = {
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
"""Settings of a broker of 4.1, in which the streams protocol was under development."""
_TYPES: Final = {"classic": "Classic/consumer", "streams": "Streams/streams"}
_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def applications_of(release: str) -> list[str]:
    """Return the group protocols and guarantees of the applications of a release."""
    applications = ["classic-at_least_once", "classic-exactly_once_v2"]
    if release not in _WITHOUT_STREAMS_PROTOCOL:
        applications.append("streams-exactly_once_v2")
    return applications


def settings_of(release: str) -> dict[str, Any]:
    """Return the topics and settings of a broker that emulates a release."""
    topics = {"lines": 2, **{f"counts-{name}": 1 for name in applications_of(release)}}
    config = _CONFIG | _UNDER_DEVELOPMENT if release == "4.1" else _CONFIG
    return {"topics": topics, "config": config, "as_version": release}


@pytest.mark.parametrize("release", LATEST_PATCH)
def test_word_counts_are_right_at_their_release_and_the_default_one(
    release: str, tmp_path: Path
) -> None:
    own_settings = settings_of(release)
    default_settings = {"topics": own_settings["topics"], "config": _CONFIG}
    applications = applications_of(release)
    with (
        Broker(**own_settings, log_level="error") as own,
        Broker(**default_settings, log_level="error") as default,
    ):
        brokers = (own.bootstrap_servers, default.bootstrap_servers)
        reported = run_on_release(
            release,
            "ReleaseStreams",
            str(tmp_path),
            "names" if release in _WITHOUT_GROUP_TYPES else "types",
            *(",".join([bootstrap, *applications]) for bootstrap in brokers),
            artifacts=("kafka-clients", "kafka-streams"),
        )
    expected = {}
    for number in range(len(brokers)):
        for name in applications:
            protocol, _ = name.split("-")
            type_name = "listed" if release in _WITHOUT_GROUP_TYPES else _TYPES[protocol]
            expected[f"{number} {name} counts"] = "a=1+2+3,b=1+2,c=1"
            expected[f"{number} {name} type"] = type_name
    assert reported == expected
