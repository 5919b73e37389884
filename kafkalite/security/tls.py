"""TlsServer: the TLS context of one listener, its principals, and reasons of failed handshakes."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.ports.key_files import modification_time_ns, read_store_file, temporary_key_file
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.other_protocols import other_protocol
from kafkalite.security.key_stores import (
    SECURITY_EXTRA,
    KeyStoreError,
    read_key_store,
    read_trust_store,
)
from kafkalite.security.listener_security import (
    ANONYMOUS,
    ProposedValues,
)
from kafkalite.security.principal_mapper import PrincipalMapper

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kafkalite.config.definitions import Value
    from kafkalite.security.key_stores import KeyMaterial
    from kafkalite.security.listener_security import ListenerSecurity

_CONTEXT_KEYS: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
)
"""The settings that a context is made from."""

_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CERTIFICATE: Final = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
_OLD_VERSIONS: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Versions that Java knows but disables, as OpenSSL does."""
_DSA_KEY: Final = bytes.fromhex("06072a8648ce380401")
"""The object identifier of a DSA key in a certificate."""
_DSA_SUITES: Final = (
    "DHE-DSS-AES256-GCM-SHA384",
    "DHE-DSS-AES128-GCM-SHA256",
    "DHE-DSS-AES256-SHA256",
    "DHE-DSS-AES128-SHA256",
    "DHE-DSS-AES256-SHA",
    "DHE-DSS-AES128-SHA",
)
_FFDHE_2048: Final = """
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
"""The group ffdhe2048 of RFC 7919, which Java uses for the key exchange of these suites."""
_PARTIAL_CHAIN: Final = 0x80000
"""X509_V_FLAG_PARTIAL_CHAIN: as in Java, each certificate in the trust store is a trust anchor."""


class TlsError(ValueError):
    """Settings of TLS that cannot be used; the text is one line for users."""


class _State(NamedTuple):
    """A context, and the settings and files that it was made from."""

    values: Sequence[Value]
    modification_times_ns: Sequence[int | None]
    key: KeyMaterial
    context: ssl.SSLContext
    trusted: frozenset[bytes]
    """The certificates in the trust store, in DER."""


class ServerSide(ssl.SSLObject):
    """TLS of one connection, with the host name that the client has in its handshake (SNI)."""

    server_name: str | None = None


def _note_server_name(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
    if isinstance(tls, ServerSide):
        tls.server_name = name


class TlsServer:
    """The TLS side of one listener.

    The context is replaced when its settings or files change. Connections that exist already do not
    change. If the new files cannot be used, the former context remains in use.
    """

    __slots__ = ("_mapper", "_report", "_security", "_state", "notes_server_names")

    def __init__(
        self,
        security: ListenerSecurity,
        report: Callable[[str], None],
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Load the files; raises TlsError.

        `report` is called when a reload fails, `warn` for weak keys and certificates at the start.
        """
        self._security = security
        self._report = report
        self.notes_server_names = False
        """Whether `ServerSide.server_name` is set in handshakes."""
        try:
            self._mapper = PrincipalMapper(security.str("ssl.principal.mapping.rules"))
        except ValueError as error:
            raise TlsError(f"ssl.principal.mapping.rules: {error}") from error
        values, times = self._values(), self._modification_times_ns()
        key = _read_key(security)
        trusted = _read_trusted(security)
        context = _new_context(security, key, trusted, warn)
        self._state = _State(values, times, key, context, _certificates_of(trusted))

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        state = self._state
        values, times = self._values(), self._modification_times_ns()
        if values != state.values or times != state.modification_times_ns:
            # Also after an error, which is reported once for each change.
            self._state = state._replace(values=values, modification_times_ns=times)
            try:
                key, trusted = _read_key(self._security), _read_trusted(self._security)
                context = _new_context(self._security, key, trusted)
            except TlsError as error:
                self._report(str(error))
            else:
                self._state = self._state._replace(
                    key=key, context=context, trusted=_certificates_of(trusted)
                )
        context = self._state.context
        if self.notes_server_names and context.sni_callback is None:
            context.sslobject_class = ServerSide
            context.sni_callback = _note_server_name
        return context

    def check_change(self, names: Collection[str], get: Callable[[str], Value]) -> None:
        """Check new settings of the listener, as Kafka's SslFactory does; raises ConfigError."""
        prefix = self._security.prefix
        changed = sorted(name for name in names if name.startswith(f"{prefix}ssl."))
        if not changed:
            return
        candidate = self._security._replace(config=ProposedValues(get))
        try:
            key = _read_key(candidate)
            _new_context(candidate, key, _read_trusted(candidate))
            _check_identity(self._state.key, key, candidate)
        except TlsError as error:
            raise ConfigError(
                changed[0], f"Validation of dynamic config update of SSLFactory failed: {error}"
            ) from error

    def check_client(self, certificate: bytes | None) -> None:
        """Check a client's certificate in DER, which has a trusted authority, as Java 17 does.

        Raises ValueError for a weak one, unless it is in the trust store itself.
        """
        if certificate is None or certificate in self._state.trusted:
            return
        try:
            from kafkalite.security.weak_certificates import weakness_of  # noqa: PLC0415 - heavy
        except ImportError:  # SASL_SSL does not need to read certificates
            return
        weakness = weakness_of(certificate)
        if weakness is not None:
            raise ValueError(f"the certificate of the client is not accepted: {weakness}")

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client by its certificate in DER.

        Raises NoMatchingRuleError if no mapping rule applies, and ValueError for invalid DER.
        """
        if certificate is None or self._security.protocol is not SecurityProtocol.SSL:
            return ANONYMOUS
        from kafkalite.security.distinguished_name import subject_of  # noqa: PLC0415 - heavy

        return f"User:{self._mapper.name_of(subject_of(certificate))}"

    def _values(self) -> Sequence[Value]:
        get = self._security.get
        return [get(key) for key in _CONTEXT_KEYS]

    def _modification_times_ns(self) -> Sequence[int | None]:
        locations = map(
            self._security.str_or_none, ("ssl.keystore.location", "ssl.truststore.location")
        )
        return [None if path is None else modification_time_ns(path) for path in locations]


def _check_identity(current: KeyMaterial, new: KeyMaterial, security: ListenerSecurity) -> None:
    """Check that a new certificate has the names of the current one; raises TlsError."""
    _require_names(f"listener {security.name}: a new certificate")
    from kafkalite.security.distinguished_name import names_of_pem  # noqa: PLC0415 - heavy

    old_names, new_names = names_of_pem(current.pem), names_of_pem(new.pem)
    is_same_subject = old_names.subject.lower() == new_names.subject.lower()
    if not is_same_subject and not security.get("ssl.allow.dn.changes"):
        raise TlsError(
            f"Keystore DistinguishedName does not match: existing={old_names.subject}, "
            f"new={new_names.subject}"
        )
    are_names_retained = old_names.alternatives <= new_names.alternatives
    if not are_names_retained and not security.get("ssl.allow.san.changes"):
        raise TlsError(
            "Keystore SubjectAltNames do not match: existing="
            f"{sorted(old_names.alternatives)}, new={sorted(new_names.alternatives)}"
        )


def _read_key(security: ListenerSecurity) -> KeyMaterial:
    """Return the key and the certificates of a listener; raises TlsError."""
    try:
        key = read_key_store(security, read_store_file)
    except KeyStoreError as error:
        raise TlsError(f"listener {security.name}: {error}") from error
    if key is None:
        raise TlsError(
            f"listener {security.name} needs a certificate: set ssl.keystore.location, or use "
            "--tls auto"
        )
    return key


def _read_trusted(security: ListenerSecurity) -> str | None:
    """Return the trust store of a listener as PEM, None if it has none; raises TlsError."""
    try:
        return read_trust_store(security, read_store_file)
    except KeyStoreError as error:
        raise TlsError(f"listener {security.name}: {error}") from error


def _certificates_of(pem: str | None) -> frozenset[bytes]:
    """Return the certificates of a PEM text in DER."""
    found = _CERTIFICATE.findall(pem or "")
    return frozenset(ssl.PEM_cert_to_DER_cert(each) for each in found)


def _new_context(
    security: ListenerSecurity,
    key: KeyMaterial,
    trusted: str | None,
    warn: Callable[[str], None] = lambda _: None,
) -> ssl.SSLContext:
    """Return a context with the current settings of a listener; raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        load_key(context, key, security)
    except TlsError as error:
        # OpenSSL refuses keys and certificates that Java accepts, such as those with SHA-1.
        _accept_weak_certificates(context)
        _load_key(context, key, security)
        reason = openssl_reason(error.__cause__) if isinstance(error.__cause__, OSError) else error
        warn(
            f"listener {security.name}: many clients refuse the key and certificate in "
            f"{_place_of_key(security)}, which Kafka accepts: {reason}"
        )
    else:
        _accept_weak_certificates(context)
    if _has_dsa_key(key.pem):
        _accept_dsa(context)
    context.verify_mode = _client_verification(security)
    context.verify_flags |= ssl.VerifyFlags(_PARTIAL_CHAIN)
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, trusted, security)
        if security.protocol is SecurityProtocol.SSL:
            value = security.str("ssl.client.auth")
            _require_names(f"listener {security.name}: ssl.client.auth={value}")
    _set_versions(context, security)
    return context


def _accept_weak_certificates(context: ssl.SSLContext) -> None:
    """Accept signatures with SHA-1 and RSA keys of 1024 bits, with the same cipher suites."""
    suites = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    context.set_ciphers(":".join((*suites, "@SECLEVEL=0")))


def _has_dsa_key(pem: str) -> bool:
    """Return whether the first certificate of a text has a DSA key."""
    first = _CERTIFICATE.search(pem)
    return first is not None and _DSA_KEY in ssl.PEM_cert_to_DER_cert(first.group())


def _accept_dsa(context: ssl.SSLContext) -> None:
    """Serve a certificate with a DSA key by the cipher suites of Java, which are of TLS 1.2."""
    with temporary_key_file(_FFDHE_2048.encode()) as path:
        context.load_dh_params(path)
    suites = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    context.set_ciphers(":".join((*_DSA_SUITES, *suites, "@SECLEVEL=0")))


def _require_names(feature: str) -> None:
    """Raise TlsError if the names in certificates cannot be read."""
    try:
        import kafkalite.security.distinguished_name  # noqa: F401, PLC0415 - heavy
    except ImportError as error:
        raise TlsError(f"{feature} needs {SECURITY_EXTRA}") from error


def _load_key(context: ssl.SSLContext, key: KeyMaterial, security: ListenerSecurity) -> None:
    try:
        load_key(context, key, security)
    except TlsError as error:
        raise TlsError(f"listener {security.name}: {error}") from error


def load_key(context: ssl.SSLContext, key: KeyMaterial, security: ListenerSecurity) -> None:
    """Let a context use a key and its certificates; raises TlsError without a listener's name."""

    def password() -> str:
        if key.password is None:
            raise ValueError("the key has a password: set ssl.key.password")
        return key.password

    try:
        with temporary_key_file(key.pem.encode()) as path:
            context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        place = _place_of_key(security)
        raise TlsError(
            f"cannot use key and certificate in {place}: "
            f"{_missing_part(key.pem) or openssl_reason(error)}"
        ) from error


def _place_of_key(security: ListenerSecurity) -> str:
    return security.str_or_none("ssl.keystore.location") or "ssl.keystore.key"


def _missing_part(pem: str) -> str:
    """Return the reason if a text lacks the key or the certificate, else an empty text."""
    if "PRIVATE KEY-----" not in pem:
        return "there is no private key in PEM format"
    return "" if "-----BEGIN CERTIFICATE" in pem else "there is no certificate in PEM format"


def _load_trusted(context: ssl.SSLContext, trusted: str | None, security: ListenerSecurity) -> None:
    if trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        place = security.str_or_none("ssl.truststore.location") or "ssl.truststore.certificates"
        raise TlsError(
            f"listener {security.name}: cannot use certificates in {place}: {openssl_reason(error)}"
        ) from error


def _client_verification(security: ListenerSecurity) -> ssl.VerifyMode:
    """Return whether client certificates are verified.

    As in Kafka, `ssl.client.auth` without a listener's name does not apply to SASL_SSL.
    """
    key = "ssl.client.auth"
    if security.protocol is SecurityProtocol.SASL_SSL and not security.has_own(key):
        return ssl.CERT_NONE
    return _CLIENT_AUTH[security.str(key)]


def _set_versions(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    """Enable the configured versions and cipher suites; raises TlsError."""
    protocols = security.list("ssl.enabled.protocols") or tuple(_VERSIONS)
    unknown = [name for name in protocols if name not in (*_VERSIONS, *_OLD_VERSIONS)]
    if unknown:
        raise TlsError(f"ssl.enabled.protocols: unsupported protocol {unknown[0]}")
    versions = [_VERSIONS[name] for name in protocols if name in _VERSIONS]
    suites = security.list("ssl.cipher.suites")
    if suites:
        versions = _versions_with_suites(context, suites, versions)
    if not versions:
        raise TlsError(
            "ssl.enabled.protocols and ssl.cipher.suites leave no version of TLS: enable TLSv1.2 "
            "or TLSv1.3"
        )
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _versions_with_suites(
    context: ssl.SSLContext, suites: Sequence[str], versions: Sequence[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    """Enable cipher suites, and return those of the versions that have one of them.

    Python cannot select single suites of TLS 1.3, so one of them enables all of them.
    """
    known = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.3"}
    of_version_1_3 = [name for name in suites if name in known]
    others = [name for name in suites if name not in known]
    if others:
        try:
            context.set_ciphers(":".join(map(openssl_name, others)))
        except ssl.SSLError as error:
            raise TlsError(
                f"ssl.cipher.suites: unsupported suite in {', '.join(others)}"
            ) from error
        enabled = {each["name"] for each in context.get_ciphers()}
        unsupported = [name for name in others if openssl_name(name) not in enabled]
        if unsupported:
            raise TlsError(f"ssl.cipher.suites: unsupported suite {unsupported[0]}")
    with_suites = {
        ssl.TLSVersion.TLSv1_2: bool(others),
        ssl.TLSVersion.TLSv1_3: bool(of_version_1_3),
    }
    return [version for version in versions if with_suites[version]]


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2, such as ECDHE-RSA-AES128-GCM-SHA256."""
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        return suite
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("_CBC_", "_")
    cipher = re.sub(r"(CHACHA20_POLY1305)_SHA256", r"\1", cipher)
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16
_ALERTS_OF_OPENSSL: Final = (
    bytes.fromhex("15 0303 0002 02 30"),  # unknown_ca
    bytes.fromhex("15 0303 0002 02 2d"),  # certificate_expired
)
_CERTIFICATE_UNKNOWN_ALERT: Final = bytes.fromhex("15 0303 0002 02 2e")
_INTERNAL_ERROR_ALERT: Final = bytes.fromhex("15 0303 0002 02 50")
"""A fatal alert of TLS 1.2, as Java sends it for bytes that are not those of TLS."""

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, but ssl.client.auth is "
    "required",
    "NO_SHARED_CIPHER": "the client supports none of the cipher suites",
    "UNSUPPORTED_PROTOCOL": "the client supports none of the versions in ssl.enabled.protocols",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client rejects the certificate of this listener",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds the certificate of this listener expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client rejects the certificate of this listener",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the certificate of this listener",
}
"""Reason of OpenSSL → text."""


def starts_handshake(content: bytes | memoryview) -> bool:
    """Return whether the first received bytes can be those of a TLS handshake."""
    return content[0] == _TLS_HANDSHAKE


def plain_text_answer(content: bytes | memoryview) -> bytes:
    """Return what a client receives whose first bytes are not those of a handshake.

    As in Java, it is an alert, except after an alert of the client.
    """
    return b"" if content[0] == _TLS_ALERT else _INTERNAL_ERROR_ALERT


def with_alert_of_java(content: bytes) -> bytes:
    """Return the end of a refused handshake with the alert that Java sends.

    For a certificate that has expired or has an unknown authority, Java sends certificate_unknown.
    Only alerts of TLS 1.2 are replaced, because those of TLS 1.3 are encrypted.
    """
    if content.endswith(_ALERTS_OF_OPENSSL):
        return content[: -len(_CERTIFICATE_UNKNOWN_ALERT)] + _CERTIFICATE_UNKNOWN_ALERT
    return content


def alert_for_weak_certificate(version: str | None) -> bytes:
    """Return what a client with a weak certificate receives in place of the end of its handshake.

    With TLS 1.2 it is the alert that Java sends. OpenSSL cannot encrypt an alert for TLS 1.3.
    """
    return _CERTIFICATE_UNKNOWN_ALERT if version == "TLSv1.2" else b""


def plain_text_reason(content: bytes) -> str:
    """Return why a connection is closed whose first bytes are not those of TLS."""
    protocol = other_protocol(content) or "plain text"
    return f"the listener requires TLS, but the client seems to speak {protocol}"


def handshake_failure_reason(error: Exception) -> str:
    """Return why a handshake or a record of TLS is refused, as one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in _REASONS:
        return _REASONS[error.reason]
    return f"TLS failed: {openssl_reason(error)}"


def openssl_reason(error: Exception) -> str:
    """Return the reason for which OpenSSL or the system refuses a file or a connection."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM format").lower().replace("_", " ")
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
