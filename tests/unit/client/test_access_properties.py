"""Access to a cluster by the properties of a Java client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.access import PLAINTEXT, Login
from kafkalite.client.access_properties import AccessPropertiesError, access_of, access_of_text
from kafkalite.security.certificates import CertificateAuthority

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_without_a_protocol_there_is_neither_tls_nor_a_login() -> None:
    assert access_of({"client.id": "any"}) == PLAINTEXT


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


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["security.protocol=QUIC"], "security.protocol is one of PLAINTEXT, SSL"),
        (["security.protocol=SASL_PLAINTEXT"], "sasl.mechanism is one of SCRAM-SHA-512, SCRAM"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"], "not 'OAUTHBEARER'"),
        (["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"], "no module with username"),
        (["security.protocol=SSL", "ssl.keystore.location=/k"], "are not supported here"),
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
