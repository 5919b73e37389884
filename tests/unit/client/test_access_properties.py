"""Access to a cluster by the properties of a Java client."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.client.access import Access, Login
from kafkalite.client.access_properties import AccessPropertiesError, access_of, access_of_text
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.testing import Broker

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_without_a_protocol_there_is_neither_tls_nor_a_login() -> None:
    assert access_of({"client.id": "any", "acks": "1"}) == Access(client_id="any")


def test_properties_have_a_login() -> None:
    access = access_of_text(
        "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={_MODULE} username=alice password=secret;\n"
    )
    assert access.login == Login("PLAIN", "alice", "secret")
    assert access.tls is None


def test_properties_have_trusted_certificates(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    authority.write_bytes(CertificateAuthority.create().pem)
    tls = access_of({
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "ssl.endpoint.identification.algorithm": "",
    }).tls  # fmt: skip
    assert tls is not None
    assert len(tls.get_ca_certs()) == 1
    assert not tls.check_hostname


async def test_client_has_a_certificate(tmp_path: Path) -> None:
    config = {"ssl.client.auth": "required"}
    with Broker(security="SSL", data_directory=tmp_path, config=config) as broker:
        authority = Path(broker.client_config("librdkafka")["ssl.ca.location"])
        properties = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.parent / "client.pem"),
        }
        bootstrap = bootstrap_addresses(broker.bootstrap_servers)
        async with KafkaClient(bootstrap, access_of(properties)) as client:
            await client.check_reachable()
        del properties["ssl.keystore.location"], properties["ssl.keystore.type"]
        async with KafkaClient(bootstrap, access_of(properties)) as client:
            with pytest.raises(UnreachableError):
                await client.check_reachable()


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["security.protocol=QUIC"], "security.protocol is one of PLAINTEXT, SSL"),
        (["security.protocol=SASL_PLAINTEXT"], "sasl.mechanism is one of SCRAM-SHA-512, SCRAM"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"], "not 'OAUTHBEARER'"),
        (["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"], "no module with username"),
        (["security.protocol=SSL", "ssl.keystore.location=/k"], "password is not specified"),
        (
            ["security.protocol=SSL", "ssl.keystore.type=PEM", "ssl.keystore.location=/none"],
            "/none",
        ),
        (
            [
                "security.protocol=SSL",
                "ssl.keystore.key=no key",
                "ssl.keystore.certificate.chain=none",
                "ssl.keystore.type=PEM",
            ],
            "cannot use key and certificate in ssl.keystore.key: there is no private key",
        ),
        (["security.protocol=SSL", "ssl.truststore.location=/none"], "/none"),
    ],
)
def test_unusable_properties_are_an_error(lines: list[str], error: str) -> None:
    with pytest.raises(AccessPropertiesError, match=error):
        access_of_text("\n".join(lines))


def test_error_about_an_escape_has_no_secret() -> None:
    with pytest.raises(AccessPropertiesError, match=r"^Invalid") as raised:
        access_of_text("sasl.jaas.config=secret\\u12")
    assert "secret" not in str(raised.value)
