"""Access to a cluster by properties of a Java client: `security.protocol`, `sasl.*`, `ssl.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.access import PLAINTEXT, Access, Login
from kafkalite.config.keys import broker_keys
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.sasl.jaas import JaasError, parse_jaas
from kafkalite.security.sasl.users import PASSWORD_MECHANISMS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from kafkalite.config.definitions import Value


class AccessPropertiesError(ValueError):
    """Properties that describe no usable access; the text is one line."""


def access_of_text(text: str) -> Access:
    """Return the access in a properties file with this text; raises AccessPropertiesError."""
    import javaproperties  # noqa: PLC0415 - rarely used

    try:
        values: dict[str, str] = javaproperties.loads(text)
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise AccessPropertiesError(str(error)) from None
    return access_of(values)


def access_of(values: Mapping[str, str]) -> Access:
    """Return the access in the properties of a client; raises AccessPropertiesError.

    Properties with other meanings, such as `acks`, are ignored.
    """
    name = values.get("security.protocol", "PLAINTEXT").strip().upper()
    protocol = SecurityProtocol.__members__.get(name)
    if protocol is None:
        raise AccessPropertiesError(
            f"security.protocol is one of {', '.join(SecurityProtocol.__members__)}, not {name!r}"
        )
    tls = _tls_context(values, protocol) if protocol.uses_tls else None
    login = _login(values) if protocol.uses_sasl else None
    return Access(tls, login, values.get("client.id", "").strip() or PLAINTEXT.client_id)


class _ClientProperties:
    """The settings of a client, with the defaults of a broker's."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, key: str) -> Value:
        definition = broker_keys()[key]
        text = self._values.get(key)
        return definition.default if text is None else definition.parse(text)


def _tls_context(values: Mapping[str, str], protocol: SecurityProtocol) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - rarely used

    from kafkalite.security.key_stores import (  # noqa: PLC0415 - as above
        KeyStoreError,
        read_key_store,
        read_trust_store,
    )
    from kafkalite.security.tls import load_key  # noqa: PLC0415 - as above

    def read_file(name: str) -> bytes:
        with open(name, "rb") as file:  # noqa: PTH123 - Path adds nothing here
            return file.read()

    try:
        security = ListenerSecurity("", protocol, _ClientProperties(values))
        context = ssl.create_default_context(cadata=read_trust_store(security, read_file))
        key = read_key_store(security, read_file)
        if key is not None:
            load_key(context, key, security)
    except (KeyStoreError, OSError, ValueError) as error:
        raise AccessPropertiesError(str(error)) from error
    check = values.get("ssl.endpoint.identification.algorithm", "https").strip()
    context.check_hostname = bool(check)
    return context


def _login(values: Mapping[str, str]) -> Login:
    mechanism = values.get("sasl.mechanism", "").strip().upper()
    if mechanism not in PASSWORD_MECHANISMS:
        raise AccessPropertiesError(
            f"sasl.mechanism is one of {', '.join(PASSWORD_MECHANISMS)}, not {mechanism!r}"
        )
    try:
        options = parse_jaas(values.get("sasl.jaas.config", "")).options
        return Login(mechanism, options["username"], options["password"])
    except (JaasError, KeyError):
        raise AccessPropertiesError(
            "sasl.jaas.config has no module with username and password"
        ) from None
