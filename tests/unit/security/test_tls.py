# ruff: noqa: S106
"""TLS contexts of listeners: settings, reload, checks of dynamic changes, and reasons."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.dynamic import check_dynamic_values
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.principal_mapper import NoMatchingRuleError
from kafkalite.security.tls import (
    TlsError,
    TlsServer,
    handshake_failure_reason,
    openssl_name,
    plain_text_reason,
    starts_handshake,
    with_alert_of_java,
)
from tests.unit.security.issued_files import (
    SERVER_NAMES,
    WEAK_STORE,
    Files,
    authority,
    client,
    listener_security,
    server,
)
from tests.unit.security.missing_extra import hide_cryptography

if TYPE_CHECKING:
    from pathlib import Path

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def handshake(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> ssl.SSLObject:
    """Return the client's side after a handshake in memory; raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server_context.wrap_bio(to_server, to_client, server_side=True)
    at_client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    pending = [at_client, at_server]
    while pending:
        side = pending.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pending.append(side)
    at_server.write(b"x")
    at_client.read(1)
    return at_client


def tls_server(
    config: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL
) -> TlsServer:
    return TlsServer(listener_security(config, protocol), pytest.fail)


def test_a_client_that_trusts_the_authority_connects(files: Files) -> None:
    context = tls_server(files.config()).context()
    assert handshake(context, files.client_context()).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        handshake(context, ssl.create_default_context())


@pytest.mark.parametrize(
    ("client_auth", "accepted"), [("none", True), ("requested", True), ("required", False)]
)
def test_client_certificates_are_required(
    files: Files, client_auth: str, *, accepted: bool
) -> None:
    context = tls_server(files.config(ssl_client_auth=client_auth)).context()
    handshake(context, files.client_context(client()))
    if accepted:
        handshake(context, files.client_context())
        return
    with pytest.raises(ssl.SSLError) as refused:
        handshake(context, files.client_context())
    assert "no certificate" in handshake_failure_reason(refused.value)


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_expired_and_foreign_certificates_are_rejected(files: Files, client_auth: str) -> None:
    context = tls_server(files.config(ssl_client_auth=client_auth)).context()
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        handshake(context, files.client_context(client(is_expired=True)))
    reason = handshake_failure_reason(refused.value)
    assert reason == "the certificate of the client is not accepted: certificate has expired"
    foreign = authority("other").issue("alice")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, files.client_context(foreign))


def test_weak_certificates_are_accepted_with_a_warning(files: Files) -> None:
    """Fixtures of many projects are signed with SHA-1, or have RSA keys of 1024 bits."""
    warnings: list[str] = []
    store = str(WEAK_STORE)
    config = files.config(
        ssl_client_auth="required", ssl_keystore_location=store, ssl_truststore_location=store
    )
    server = TlsServer(listener_security(config), pytest.fail, warnings.append)
    (warning,) = warnings
    assert f"refuse the key and certificate in {store}, which Kafka accepts: ee key too" in warning
    context = ssl.create_default_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.load_verify_locations(store)
    context.load_cert_chain(store)
    handshake(server.context(), context)
    assert {each["name"] for each in server.context().get_ciphers()} == {
        each["name"] for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()
    }


def signed(
    name: str,
    key: ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey,
    *,
    is_authority: bool = False,
) -> bytes:
    """Return a certificate as PEM."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    subject, authority_name = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (name, issuer)
    )
    builder = x509.CertificateBuilder(
        authority_name, subject, key.public_key(), 1, start, start + timedelta(9999)
    )
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
    builder = builder.add_extension(names, critical=False).add_extension(constraints, critical=True)
    return builder.sign(issuer_key, SHA256()).public_bytes(Encoding.PEM)


def private(key: ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_certificate_with_a_dsa_key_is_served(files: Files) -> None:
    """Java serves it by TLS 1.2; TLS 1.3 has no signatures by DSA."""
    key = dsa.generate_private_key(1024)  # noqa: S505 - made fast
    own = signed("localhost", key, "localhost", key, is_authority=True)
    store = files.write("dsa.pem", private(key) + own)
    server = tls_server(files.config(ssl_keystore_location=store))
    context = ssl.create_default_context(cadata=own.decode())
    context.set_ciphers("ALL:@SECLEVEL=0")
    cipher = handshake(server.context(), context).cipher()
    assert cipher is not None
    assert cipher[:2] == ("DHE-DSS-AES256-GCM-SHA384", "TLSv1.2")


def test_clients_have_certificates_of_intermediate_authorities(files: Files) -> None:
    """As in Java, each certificate in the trust store is an anchor."""
    root_key, own_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root = signed("root", root_key, "root", root_key, is_authority=True)
    intermediate = signed("intermediate", own_key, "root", root_key, is_authority=True)
    own = private(key) + signed("alice", key, "intermediate", own_key)
    for trusted, chain in (
        (root, own + intermediate),
        (intermediate, own + intermediate),
        (intermediate, own),
    ):
        store = files.write("trusted.pem", trusted)
        config = files.config(ssl_client_auth="required", ssl_truststore_location=store)
        context = ssl.create_default_context(cafile=files.authority)
        context.load_cert_chain(files.write("alice.pem", chain))
        handshake(tls_server(config).context(), context)


def test_a_certificate_of_an_unknown_authority_gets_the_alert_of_java(files: Files) -> None:
    config = files.config(ssl_client_auth="required", ssl_enabled_protocols="TLSv1.2")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = tls_server(config).context().wrap_bio(to_server, to_client, server_side=True)
    foreign = files.client_context(authority("other").issue("alice"))
    at_client = foreign.wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (at_client, at_server, at_client):
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError):
        at_server.do_handshake()
    to_client.write(with_alert_of_java(to_client.read()))
    with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_UNKNOWN"):
        at_client.do_handshake()


@pytest.mark.parametrize(
    ("sent", "expected"), [("30", "2e"), ("2d", "2e"), ("28", "28"), ("50", "50")]
)
def test_only_alerts_about_certificates_are_replaced(sent: str, expected: str) -> None:
    before = bytes.fromhex("16 0303 0001 00")
    sent_bytes, expected_bytes = (
        before + bytes.fromhex(f"15 0303 0002 02 {code}") for code in (sent, expected)
    )
    assert with_alert_of_java(sent_bytes) == expected_bytes
    assert with_alert_of_java(b"") == b""


def test_sasl_listeners_need_a_setting_of_their_own_for_client_certificates(files: Files) -> None:
    config = files.config(ssl_client_auth="required")
    context = tls_server(config, SecurityProtocol.SASL_SSL).context()
    handshake(context, files.client_context())
    config["listener.name.sasl_ssl.ssl.client.auth"] = "required"
    context = tls_server(config, SecurityProtocol.SASL_SSL).context()
    with pytest.raises(ssl.SSLError):
        handshake(context, files.client_context())


@pytest.mark.parametrize(
    ("protocols", "suites", "versions"),
    [
        ("TLSv1.2,TLSv1.3", "", (TLS_1_2, TLS_1_3)),
        ("", "", (TLS_1_2, TLS_1_3)),
        ("TLSv1.1,TLSv1.2", "", (TLS_1_2, TLS_1_2)),
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256", (TLS_1_3, TLS_1_3)),
        ("TLSv1.2,TLSv1.3", "TLS_AES_128_GCM_SHA256", (TLS_1_3, TLS_1_3)),
        ("TLSv1.2,TLSv1.3", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", (TLS_1_2, TLS_1_2)),
    ],
)
def test_versions_follow_protocols_and_suites(
    files: Files, protocols: str, suites: str, versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> None:
    config = files.config(ssl_enabled_protocols=protocols, ssl_cipher_suites=suites)
    context = tls_server(config).context()
    assert (context.minimum_version, context.maximum_version) == versions


def test_only_the_suites_of_the_settings_are_used(files: Files) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    context = tls_server(files.config(ssl_cipher_suites=suite)).context()
    cipher = handshake(context, files.client_context()).cipher()
    assert cipher is not None
    assert cipher[0] == openssl_name(suite)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ssl_enabled_protocols": "TLSv1.1"}, "leave no version of TLS"),
        ({"ssl_enabled_protocols": "TLSv2"}, "unsupported protocol TLSv2"),
        ({"ssl_cipher_suites": "TLS_NO_SUCH"}, "unsupported suite in TLS_NO_SUCH"),
        (
            {"ssl_cipher_suites": "TLS_NO_SUCH,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
            "unsupported suite TLS_NO_SUCH",
        ),
        ({"ssl_principal_mapping_rules": "RULE:(/x/"}, "ssl.principal.mapping.rules: Invalid rule"),
        ({"ssl_keystore_location": "/none"}, "Failed to load SSL key store /none"),
        ({"ssl_truststore_location": "/none"}, "Failed to load SSL trust store /none"),
    ],
)
def test_unusable_settings_are_rejected(files: Files, config: dict[str, str], message: str) -> None:
    with pytest.raises(TlsError, match=message):
        tls_server(files.config(**config))


def test_a_listener_needs_a_certificate() -> None:
    with pytest.raises(TlsError, match="listener SSL needs a certificate"):
        tls_server({})


def test_a_key_with_a_password_needs_the_password(files: Files) -> None:
    encrypted = authority().chain_pem(server()).replace(server().key_pem, _encrypted_key())
    location = files.write("locked.pem", encrypted)
    with pytest.raises(TlsError, match=r"set ssl\.key\.password"):
        tls_server(files.config(ssl_keystore_location=location))
    tls_server(files.config(ssl_keystore_location=location, ssl_key_password="secret"))
    with pytest.raises(TlsError, match="cannot use key and certificate") as refused:
        tls_server(files.config(ssl_keystore_location=location, ssl_key_password="wrong"))
    assert "wrong" not in str(refused.value)


def _encrypted_key() -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        BestAvailableEncryption,
        PrivateFormat,
    )

    return server().key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


def test_a_key_of_another_certificate_is_rejected(files: Files) -> None:
    location = files.write("mixed.pem", client().key_pem + server().certificate_pem)
    with pytest.raises(TlsError, match="key values mismatch"):
        tls_server(files.config(ssl_keystore_location=location))


def test_a_file_without_key_or_certificate_is_rejected(files: Files) -> None:
    parts = {"key": server().certificate_pem, "certificate": server().key_pem}
    for missing, content in parts.items():
        location = files.write("half.pem", content)
        with pytest.raises(TlsError, match=f"there is no (private )?{missing} in PEM format"):
            tls_server(files.config(ssl_keystore_location=location))


def test_changed_files_are_loaded_again(files: Files) -> None:
    reports: list[str] = []
    tls = TlsServer(listener_security(files.config()), reports.append)
    first = tls.context()
    assert tls.context() is first
    other = authority("other")
    files.write("server.pem", other.chain_pem(other.issue("server", SERVER_NAMES)))
    os.utime(files.server, ns=(1, 1))
    second = tls.context()
    handshake(second, files.client_context(trusted=files.write("other.pem", other.pem)))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(second, files.client_context())
    assert reports == []
    files.write("server.pem", b"half of a fi")
    os.utime(files.server, ns=(2, 2))
    assert tls.context() is second
    assert tls.context() is second
    (report,) = reports
    assert "cannot use key and certificate" in report


def test_changed_settings_are_applied(files: Files) -> None:
    config = BrokerConfig.from_text(files.config())
    tls = TlsServer(ListenerSecurity("SSL", SecurityProtocol.SSL, config), pytest.fail)
    handshake(tls.context(), files.client_context())
    config.publish({}, {}, {1: {"listener.name.ssl.ssl.client.auth": "required"}})
    with pytest.raises(ssl.SSLError):
        handshake(tls.context(), files.client_context())


@pytest.mark.parametrize(
    ("subject", "names", "allowed", "message"),
    [
        ("SERVER", SERVER_NAMES, "", None),
        ("server", (*SERVER_NAMES, "more.test"), "", None),
        ("other", SERVER_NAMES, "", "DistinguishedName does not match: existing=CN=server, new=CN"),
        ("other", SERVER_NAMES, "ssl.allow.dn.changes", None),
        ("server", ("localhost",), "", "SubjectAltNames do not match"),
        ("server", ("localhost",), "ssl.allow.san.changes", None),
    ],
)
def test_a_dynamic_change_must_not_change_the_names_of_the_certificate(
    files: Files, subject: str, names: tuple[str, ...], allowed: str, message: str | None
) -> None:
    config = BrokerConfig.from_text({**files.config(), **({allowed: "true"} if allowed else {})})
    security = ListenerSecurity("SSL", SecurityProtocol.SSL, config)
    config.dynamic_checks.append(TlsServer(security, pytest.fail).check_change)
    location = files.write("new.pem", authority().chain_pem(authority().issue(subject, names)))
    change = {"listener.name.ssl.ssl.keystore.location": location}
    if message is None:
        check_dynamic_values(change, config, is_per_broker=True)
        return
    with pytest.raises(ConfigError, match=message):
        check_dynamic_values(change, config, is_per_broker=True)


def test_an_unusable_dynamic_change_is_rejected(files: Files) -> None:
    config = BrokerConfig.from_text(files.config())
    security = ListenerSecurity("SSL", SecurityProtocol.SSL, config)
    config.dynamic_checks.append(TlsServer(security, pytest.fail).check_change)
    change = {"listener.name.ssl.ssl.keystore.location": "/none"}
    with pytest.raises(ConfigError, match="Validation of dynamic config update of SSLFactory"):
        check_dynamic_values(change, config, is_per_broker=True)
    # A change of another listener is not checked.
    change = {"listener.name.other.ssl.keystore.location": "/none"}
    check_dynamic_values(change, config, is_per_broker=True)


def test_the_principal_is_that_of_the_certificate(files: Files) -> None:
    der = client().certificate.public_bytes(Encoding.DER)
    tls = tls_server(files.config())
    assert tls.principal_of(der) == "User:CN=alice"
    assert tls.principal_of(None) == "User:ANONYMOUS"
    sasl = tls_server(files.config(), SecurityProtocol.SASL_SSL)
    assert sasl.principal_of(der) == "User:ANONYMOUS"
    mapped = tls_server(files.config(ssl_principal_mapping_rules=r"RULE:CN=(.*)/$1/U"))
    assert mapped.principal_of(der) == "User:ALICE"
    unmapped = tls_server(files.config(ssl_principal_mapping_rules=r"RULE:O=(.*)/$1/"))
    with pytest.raises(NoMatchingRuleError):
        unmapped.principal_of(der)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_names_of_suites_are_known(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(f"{name}:@SECLEVEL=0")


def test_reasons_are_one_line() -> None:
    assert starts_handshake(b"\x16\3\1")
    assert not starts_handshake(b"\0\0\0\1")
    assert "seems to speak HTTP" in plain_text_reason(b"GET ")
    assert "seems to speak plain text" in plain_text_reason(b"\0\0\0\1")
    assert handshake_failure_reason(ValueError("x")) == "TLS failed: x"


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_client_certificates_need_the_extra_security(
    monkeypatch: pytest.MonkeyPatch, files: Files, client_auth: str
) -> None:
    config = files.config()
    config["ssl.client.auth"] = client_auth
    hide_cryptography(monkeypatch)
    message = rf"listener SSL: ssl\.client\.auth={client_auth} needs pip install"
    with pytest.raises(TlsError, match=message):
        tls_server(config)
    # The principal of a client of SASL_SSL does not come from its certificate.
    del config["ssl.client.auth"]
    config["listener.name.sasl_ssl.ssl.client.auth"] = client_auth
    assert tls_server(config, SecurityProtocol.SASL_SSL).context().verify_mode


def test_a_dynamic_change_that_needs_the_extra_security_is_rejected(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    config = BrokerConfig.from_text(files.config())
    security = ListenerSecurity("SSL", SecurityProtocol.SSL, config)
    hide_cryptography(monkeypatch)
    config.dynamic_checks.append(TlsServer(security, pytest.fail).check_change)
    for key, value, feature in (
        ("ssl.client.auth", "required", "ssl.client.auth=required"),
        ("ssl.keystore.location", files.server, "a new certificate"),
    ):
        with pytest.raises(ConfigError, match=f"listener SSL: {feature} needs pip install"):
            check_dynamic_values({f"listener.name.ssl.{key}": value}, config, is_per_broker=True)
