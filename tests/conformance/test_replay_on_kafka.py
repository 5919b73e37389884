"""Captures replayed on a real Apache Kafka: of three nodes, and behind TLS and SASL."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.access import Access, Login
from kafkalite.client.client import KafkaClient
from kafkalite.lab.proxy.tls import client_context
from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.run import ReplayError, replay
from kafkalite.lab.replay.report_text import replay_text
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.versions import Versions
from kafkalite.security.sasl.users import PASSWORD_MECHANISMS
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.oracle.real_cluster import real_cluster
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG
from tests.unit.lab.proxy.certificates import Certificates
from tests.unit.lab.replay.client_workload import PARTITIONS, run_workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

USER = "replay"
PASSWORD = "pencil-in-a-test"  # noqa: S105 - of a broker that lives for a minute
_SHA = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_SALT = b"salt-of-a-test"
_ROUNDS = 4096


@pytest.mark.parametrize("recorded", [1, 3])
def test_three_nodes_of_kafka_answer_like_kafkalite(recorded: int, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    with Broker(recorded, config=COMMON_CONFIG, capture=capture) as broker:
        if recorded == 1:
            with closing(RawClient(_port(broker.bootstrap_servers))) as client:
                run_workload(client)
        else:
            asyncio.run(_produce(broker.bootstrap_servers))
    with required(), real_cluster(tmp_path / "kafka", 3, COMMON_CONFIG) as nodes:
        report = replay(capture, to=nodes[0].bootstrap)
    assert report.abort_reason is None
    differing = {
        (finding.api, finding.path): finding for finding in report.at_least(Severity.DIFFERENCE)
    }
    # The supported APIs are independent of the address.
    assert {api for api, _ in differing} <= {"ApiVersions"}, replay_text(report)
    assert report.responses > 20


async def _produce(bootstrap: str) -> None:
    """Write and read every partition with a client that connects to all nodes."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415 - for this test alone
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: PLC0415 - as above

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("orders", PARTITIONS, 1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        futures = [
            await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
            for number in range(60)
        ]
        await asyncio.gather(*futures)
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="shop", auto_offset_reset="earliest"
    )
    async with consumer:
        for _ in range(60):
            await consumer.getone()
        await consumer.commit()


def _port(bootstrap: str) -> int:
    return int(bootstrap.partition(",")[0].rpartition(":")[2])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealKafka, Certificates]]:
    """Run a Kafka that accepts only TLS, and has one user for three SASL mechanisms."""
    directory = tmp_path_factory.mktemp("secured")
    certificates = Certificates(directory)
    store = directory / "store.pem"
    with open(certificates.key) as key, open(certificates.chain) as chain:  # noqa: PTH123 - plain text
        store.write_text(key.read() + chain.read())
    login = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    jaas = "org.apache.kafka.common.security"
    config = {
        **COMMON_CONFIG,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(PASSWORD_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f"{jaas}.plain.PlainLoginModule required {login}"
        ),
        **{
            f"listener.name.plaintext.{name.lower()}.sasl.jaas.config": (
                f"{jaas}.scram.ScramLoginModule required;"
            )
            for name in _SHA
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
    }
    with required():
        kafka = RealKafka(directory / "kafka", config)
        kafka.start()
    try:
        asyncio.run(_create_user(kafka, certificates))
        yield kafka, certificates
    finally:
        kafka.kill()


def _access(certificates: Certificates, mechanism: str, password: str = PASSWORD) -> Access:
    tls = client_context(certificates.authority, None, None, verify_server=True)
    return Access(tls, Login(mechanism, USER, password))


async def _create_user(kafka: RealKafka, certificates: Certificates) -> None:
    row = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    rows = [
        row(
            name=USER,
            mechanism=number,
            iterations=_ROUNDS,
            salt=_SALT,
            salted_password=hashlib.pbkdf2_hmac(name, PASSWORD.encode(), _SALT, _ROUNDS),
        )
        for number, name in _SHA.values()
    ]
    address = Address.parse(kafka.bootstrap)
    async with KafkaClient([address], _access(certificates, "PLAIN")) as client:
        for upsertion in rows:  # of one user, one at a time
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
            response = await client.ask_any(request, Versions(0, 0))
            assert [result.error_code for result in response.results] == [0]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("capture")
    with (
        Broker(config=COMMON_CONFIG, capture=directory) as broker,
        closing(RawClient(_port(broker.bootstrap_servers))) as client,
    ):
        client.call(MetadataRequest(topics=[]), 12)
    return directory


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_requests_with_the_password_are_accepted(
    mechanism: str, secured: tuple[RealKafka, Certificates], capture: Path
) -> None:
    kafka, certificates = secured
    report = replay(
        capture, to=kafka.bootstrap, options=ReplayOptions(access=_access(certificates, mechanism))
    )
    assert (report.responses, report.abort_reason) == (1, None)
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    with pytest.raises(ReplayError, match=f"refuses user '{USER}'"):
        replay(
            capture,
            to=kafka.bootstrap,
            options=ReplayOptions(access=_access(certificates, mechanism, "wrong")),
        )


def test_requests_without_authentication_are_refused(
    secured: tuple[RealKafka, Certificates], capture: Path
) -> None:
    kafka, certificates = secured
    with pytest.raises(ReplayError, match="accepts TLS only"):
        replay(capture, to=kafka.bootstrap)
    tls = _access(certificates, "PLAIN").tls
    with pytest.raises(ReplayError, match="does it require a password"):
        replay(capture, to=kafka.bootstrap, options=ReplayOptions(access=Access(tls)))
    system = client_context(None, None, None, verify_server=True)
    with pytest.raises(ReplayError, match="its certificate is not trusted"):
        replay(capture, to=kafka.bootstrap, options=ReplayOptions(access=Access(system)))
