"""A broker that presents itself as a release tells of itself what that release tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle

_QUORUM: Final = "kraft.version"
"""The one feature that has no meaning without a quorum."""


class Told(NamedTuple):
    """What ApiVersions tells."""

    apis: dict[int, tuple[int, int]]
    supported: dict[str, tuple[int, int]]
    finalized: dict[str, tuple[int, int]]


def ask(port: int, version: int) -> Told:
    client = RawClient(port)
    request = ApiVersionsRequest(client_software_name="judge", client_software_version="1.0")
    answer = client.call(request, version)
    client.close()
    return Told(
        {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys},
        {
            row.name: (row.min_version, row.max_version)
            for row in answer.supported_features
            if row.name != _QUORUM
        },
        {
            row.name: (row.min_version_level, row.max_version_level)
            for row in answer.finalized_features
            if row.name != _QUORUM
        },
    )


def compare(real_port: int, release: str) -> None:
    with Broker(as_version=release) as broker:
        for version in (3, 4):
            theirs = ask(real_port, version)
            ours = ask(int(broker.bootstrap_servers.rpartition(":")[2]), version)
            assert {key: theirs.apis.get(key) for key in ours.apis} == ours.apis
            assert ours.supported == theirs.supported
            assert ours.finalized == theirs.finalized


def test_the_newest_release_is_told_of_as_it_tells_of_itself(real_kafka: RealKafka) -> None:
    compare(real_kafka.port, "4.3")


@pytest.mark.endurance
def test_an_older_release_is_told_of_as_it_tells_of_itself(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, release="4.2.0")
        kafka.start()
    try:
        compare(kafka.port, "4.2")
    finally:
        kafka.kill()
