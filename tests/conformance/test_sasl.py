"""Authentication byte by byte: kafkalite and a real Kafka give the same answers.

Two differences are intended. Kafka refuses unknown users and tokens of SCRAM at the first message.
A proof of another length raises an exception in Kafka, which closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.conformance.compared_releases import RELEASES
from tests.conformance.sasl_cases import CASES, create_users, run, settings
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.compared_releases import Release

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    """Return the release that is compared."""
    return RELEASES[request.param]


@pytest.fixture(scope="module")
def kafka(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Kafka whose clients authenticate; return its address."""
    config = {**COMMON_CONFIG, **settings("PLAINTEXT")}
    with required():
        kafka = RealKafka(tmp_path_factory.mktemp("kafka"), config, release=release.version)
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT"
        config |= {
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": "PLAINTEXT",
        }
        kafka.start()
    try:
        create_users(kafka.bootstrap)
        yield kafka.bootstrap
    finally:
        kafka.kill()


@pytest.fixture(scope="module")
def kafkalite(release: Release) -> Iterator[str]:
    """Run a kafkalite with the same settings; return its address."""
    config = settings("SASL_PLAINTEXT")
    with Broker(
        security="SASL_PLAINTEXT", config=config, as_version=release.name, log_level="error"
    ) as broker:
        create_users(broker.bootstrap_servers)
        yield broker.bootstrap_servers


@pytest.mark.parametrize("name", CASES)
def test_an_authentication_has_the_same_answers(kafka: str, kafkalite: str, name: str) -> None:
    assert run(kafkalite, CASES[name]) == run(kafka, CASES[name])
