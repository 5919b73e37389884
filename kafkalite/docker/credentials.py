"""Users, login modules and key stores from the environment of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.listeners import security_protocols
from kafkalite.docker.properties import Properties, VariableError
from kafkalite.docker.variables import (
    BITNAMI_DEFAULTS,
    BITNAMI_USER,
    SECRET_FILES,
    SECRETS_DIRECTORY,
    STORE_FILES,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.jaas import JaasError
from kafkalite.security.sasl.jaas_files import jaas_key, login_file, login_settings, scram_users
from kafkalite.security.sasl.users import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    ReadText = Callable[[str], str | None]

_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_LISTENER_PREFIX: Final = "listener.name."
_JAAS_SUFFIX: Final = ".sasl.jaas.config"
_CERTIFICATE_DIRECTORIES: Final = (
    "/bitnami/kafka/config/certs",
    "/opt/bitnami/kafka/config/certs",
)


class Credential(NamedTuple):
    """A user of listeners with SASL; without a mechanism, for all with passwords."""

    name: str
    password: str
    mechanism: str | None = None

    @property
    def option(self) -> str:
        """The value of `--user`."""
        mechanism = "" if self.mechanism is None else f":{self.mechanism}"
        return f"{self.name}:{self.password}{mechanism}"

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"Credential({self.name!r}, {self.mechanism})"


def with_secret_files(environment: Mapping[str, str], read_text: ReadText) -> dict[str, str]:
    """Return the variables, with those of SECRET_FILES read from their files.

    Raises VariableError for a file that does not exist, and for a variable that is set twice.
    """
    values = dict(environment)
    for name in SECRET_FILES:
        path = values.get(f"{name}_FILE", "").strip()
        if not path:
            continue
        if values.get(name):
            raise VariableError(f"{name} and {name}_FILE are both set: remove one of them")
        values[name] = _read(f"{name}_FILE", path, read_text).strip()
    return values


def _read(variable: str, path: str, read_text: ReadText) -> str:
    text = read_text(path)
    if text is None:
        raise VariableError(f"{variable}: cannot read {path}; mount the file there")
    return text


def add_key_stores(
    properties: Properties,
    environment: Mapping[str, str],
    read_text: ReadText,
    real_path: Callable[[str], str] = str,
) -> None:
    """Set the properties of key stores from the variables that name files.

    `real_path` returns the path at which the broker finds a file. Raises VariableError.
    """
    for file in STORE_FILES:
        name = environment.get(file.name, "").strip()
        if name:
            path = f"{SECRETS_DIRECTORY}/{name}"
            text = _read(file.name, path, read_text).strip()
            properties.set(file.target, text if file.is_content else real_path(path), file.name)
    if any(protocol.uses_tls for protocol in security_protocols(properties).values()):
        _add_bitnami_stores(properties, environment, read_text, real_path)


def _add_bitnami_stores(
    properties: Properties,
    environment: Mapping[str, str],
    read_text: ReadText,
    real_path: Callable[[str], str],
) -> None:
    """Set the key stores in the directories of certificates of bitnami/kafka."""
    if any(key.startswith("ssl.keystore.") for key in properties.values):
        return
    kind = environment.get("KAFKA_TLS_TYPE", "JKS").strip().upper() or "JKS"
    if kind not in ("JKS", "PEM"):
        raise VariableError(f"KAFKA_TLS_TYPE is JKS or PEM, not {kind!r}")
    password = environment.get("KAFKA_CERTIFICATE_PASSWORD", "")
    suffix = kind.lower()
    for directory in _CERTIFICATE_DIRECTORIES:
        store = f"{directory}/kafka.keystore.{suffix}"
        if read_text(store) is None:
            continue
        trusted = f"{directory}/kafka.truststore.{suffix}"
        found = {"ssl.keystore.type": kind, "ssl.truststore.type": kind}
        if kind == "PEM":
            key = _read("KAFKA_TLS_TYPE", f"{directory}/kafka.keystore.key", read_text)
            found["ssl.keystore.certificate.chain"] = read_text(store) or ""
            found["ssl.keystore.key"] = key
            found["ssl.truststore.certificates"] = read_text(trusted) or ""
        else:
            found["ssl.keystore.location"] = real_path(store)
            found["ssl.keystore.password"] = password
            if read_text(trusted) is not None:
                found["ssl.truststore.location"] = real_path(trusted)
                found["ssl.truststore.password"] = password
        if password:
            found["ssl.key.password"] = password
        client_auth = environment.get("KAFKA_TLS_CLIENT_AUTH", "").strip()
        found["ssl.client.auth"] = client_auth or "required"
        for key, value in found.items():
            if value:
                properties.values.setdefault(key, value)
        return


def add_logins(
    properties: Properties, environment: Mapping[str, str], read_text: ReadText
) -> list[Credential]:
    """Set the login modules of listeners with SASL, and return users; raises VariableError."""
    names = [
        name for name, protocol in security_protocols(properties).items() if protocol.uses_sasl
    ]
    _check_listener_settings(properties)
    if not names:
        return []
    if properties.uses_bitnami:
        properties.values.setdefault(_MECHANISMS_KEY, BITNAMI_DEFAULTS[_MECHANISMS_KEY])
    _check_mechanisms(properties, names)
    _add_login_file(properties, environment, names, read_text)
    credentials = list(_bitnami_users(properties, environment))
    for name in names:
        credentials += _scram_users(properties, name)
    return list(dict.fromkeys(credentials))


def _check_listener_settings(properties: Properties) -> None:
    """Refuse settings of a listener that does not exist: they would silently have no effect."""
    known = {name.lower() for name in security_protocols(properties)}
    controllers = properties.values.get("controller.listener.names", "").lower()
    known |= {name.strip() for name in controllers.split(",")}
    for key, variable in properties.variables.items():
        if key.startswith(_LISTENER_PREFIX) and known != {""}:
            listener = key.split(".")[2]
            if listener not in known:
                names = ", ".join(sorted(filter(None, known))).upper()
                raise VariableError(
                    f"{variable} sets {key}, but there is no listener {listener.upper()}, only "
                    f"{names}; in the name of a variable, an underscore of a listener is doubled"
                )


def _check_mechanisms(properties: Properties, listeners: list[str]) -> None:
    keys = [
        _MECHANISMS_KEY,
        *(f"{_LISTENER_PREFIX}{name.lower()}.{_MECHANISMS_KEY}" for name in listeners),
    ]
    for key in keys:
        for mechanism in properties.values.get(key, "").split(","):
            if mechanism.strip() and mechanism.strip().upper() not in MECHANISMS:
                raise VariableError(
                    f"{properties.variable_of(key)}: {mechanism.strip()} is not served; valid are "
                    f"{', '.join(MECHANISMS)}"
                )


def _enabled(properties: Properties, listener: str) -> list[str]:
    own = f"{_LISTENER_PREFIX}{listener.lower()}.{_MECHANISMS_KEY}"
    text = properties.values.get(own, properties.values.get(_MECHANISMS_KEY, ""))
    return [each.strip().upper() for each in text.split(",") if each.strip()]


def _add_login_file(
    properties: Properties,
    environment: Mapping[str, str],
    listeners: list[str],
    read_text: ReadText,
) -> None:
    """Set the login modules of the JAAS file that KAFKA_OPTS names, for each SASL listener."""
    path = login_file(environment.get("KAFKA_OPTS", ""))
    if path is None:
        return
    text = _read("KAFKA_OPTS", path, read_text)
    mechanisms = {listener: _enabled(properties, listener) for listener in listeners}
    try:
        properties.values.update(login_settings(text, properties.values, mechanisms))
    except JaasError as error:
        raise VariableError(f"KAFKA_OPTS: {path}: {error}") from None


def _scram_users(properties: Properties, listener: str) -> Iterator[Credential]:
    """Yield the broker's own user of each SCRAM mechanism; raises VariableError."""
    for mechanism in _enabled(properties, listener):
        try:
            for user in scram_users(properties.values, listener, [mechanism]):
                yield Credential(user.name, user.password, mechanism)
        except JaasError as error:
            key = jaas_key(listener, mechanism)
            raise VariableError(str(error).replace(key, properties.variable_of(key), 1)) from None


def _bitnami_users(properties: Properties, environment: Mapping[str, str]) -> Iterator[Credential]:
    """Yield the users of bitnami/kafka."""
    names = _split(environment.get("KAFKA_CLIENT_USERS", ""))
    passwords = _split(environment.get("KAFKA_CLIENT_PASSWORDS", ""))
    if len(names) + len(passwords) == 1:
        names, passwords = names or [BITNAMI_USER[0]], passwords or [BITNAMI_USER[1]]
    if len(names) != len(passwords):
        raise VariableError(
            f"KAFKA_CLIENT_USERS has {len(names)} users, but KAFKA_CLIENT_PASSWORDS has "
            f"{len(passwords)} passwords: give one password for each user, divided by commas"
        )
    if any(":" in name for name in names):
        raise VariableError("KAFKA_CLIENT_USERS: the name of a user has no colon")
    pairs = dict(zip(names, passwords, strict=True))
    own_name = environment.get("KAFKA_INTER_BROKER_USER", "").strip()
    own_password = environment.get("KAFKA_INTER_BROKER_PASSWORD", "").strip()
    if own_name or own_password:
        own_name = own_name or BITNAMI_USER[0]
        own_password = own_password or pairs.get(own_name, BITNAMI_USER[1])
        if pairs.setdefault(own_name, own_password) != own_password:
            raise VariableError(
                f"KAFKA_INTER_BROKER_PASSWORD and KAFKA_CLIENT_PASSWORDS differ for {own_name!r}"
            )
    has_modules = any(key.endswith(_JAAS_SUFFIX) for key in properties.values)
    if not pairs and properties.uses_bitnami and not has_modules:
        pairs = dict((BITNAMI_USER,))
    yield from (Credential(name, password) for name, password in pairs.items())


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.replace(";", ",").split(",") if item.strip()]
