"""Settings with which client libraries connect to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.ports.key_files import read_key_file
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.users import LOGIN_MODULES, OAUTHBEARER
from kafkalite.testing.token_providers import (
    aiokafka_token_provider,
    kafka_python_token_provider,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ssl import SSLContext

    from kafkalite.client.access import Login
    from kafkalite.testing.token_providers import OAuthLogin


_LOGIN_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
)
"""The class with which a Java client requests tokens."""


_CLIENT_ID_KEYS: Final = {
    "librdkafka": "client.id",
    "java": "client.id",
    "kafkajs": "clientId",
}
"""The setting of the client id by library, where it is not `client_id`."""


class ClientAccess(NamedTuple):
    """The facts about a cluster that a client needs.

    `authority_file` is the trusted certificate; `client_file` has a private key and a certificate.
    With `oauth`, the client authenticates with tokens, otherwise by `login`, if there is one.
    """

    bootstrap_servers: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    authority_file: str | None = None
    client_file: str | None = None
    login: Login | None = None
    oauth: OAuthLogin | None = None
    client_id: str | None = None
    """A client id with the name of the cluster; None if clients need none."""

    @property
    def uses_files(self) -> bool:
        """Whether the client needs the files with certificates."""
        return self.protocol.uses_tls and self.authority_file is not None


def client_settings(library: str, access: ClientAccess) -> dict[str, Any]:
    """Return the settings of a client library; raises ValueError for an unknown one."""
    if library not in LIBRARIES:
        raise ValueError(f"library {library!r} is not one of {', '.join(LIBRARIES)}")
    settings = LIBRARIES[library](access)
    if access.client_id is not None:
        settings[_CLIENT_ID_KEYS.get(library, "client_id")] = access.client_id
    return settings


def _librdkafka(access: ClientAccess) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.protocol.value,
    }
    if access.uses_files:
        settings["ssl.ca.location"] = access.authority_file
        if access.client_file is not None:
            settings |= {
                "ssl.certificate.location": access.client_file,
                "ssl.key.location": access.client_file,
            }
    if access.oauth is not None:
        settings |= {
            "sasl.mechanisms": OAUTHBEARER,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": access.oauth.token_endpoint,
            "sasl.oauthbearer.client.id": access.oauth.client_id,
            "sasl.oauthbearer.client.secret": access.oauth.client_secret,
        }
    elif access.login is not None:
        settings |= {
            "sasl.mechanisms": access.login.mechanism,
            "sasl.username": access.login.user,
            "sasl.password": access.login.password,
        }
    return settings


def _java(access: ClientAccess) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.protocol.value,
    }
    if access.uses_files:
        settings |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": access.authority_file,
        }
        if access.client_file is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": access.client_file,
            }
    if access.oauth is not None:
        settings |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.token.endpoint.url": access.oauth.token_endpoint,
            "sasl.login.callback.handler.class": _LOGIN_HANDLER,
            "sasl.jaas.config": _jaas_text(
                OAUTHBEARER,
                clientId=access.oauth.client_id,
                clientSecret=access.oauth.client_secret,
            ),
        }
    elif access.login is not None:
        settings |= {
            "sasl.mechanism": access.login.mechanism,
            "sasl.jaas.config": jaas_config(access.login),
        }
    return settings


def jaas_config(login: Login) -> str:
    """Return the text of `sasl.jaas.config` for a login."""
    return _jaas_text(login.mechanism, username=login.user, password=login.password)


def _jaas_text(mechanism: str, **options: str) -> str:
    """Return the text of a login module and its options."""
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in options.items()
    }
    texts = " ".join(f'{name}="{text}"' for name, text in escaped.items())
    return f"{LOGIN_MODULES[mechanism]} required {texts};"


def _python(access: ClientAccess) -> dict[str, Any]:
    """Return the settings that aiokafka and kafka-python have in common."""
    settings: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.protocol.value,
    }
    if access.oauth is not None:
        settings["sasl_mechanism"] = OAUTHBEARER
    elif access.login is not None:
        settings |= {
            "sasl_mechanism": access.login.mechanism,
            "sasl_plain_username": access.login.user,
            "sasl_plain_password": access.login.password,
        }
    return settings


def _aiokafka(access: ClientAccess) -> dict[str, Any]:
    settings = _python(access)
    if access.oauth is not None:
        settings["sasl_oauth_token_provider"] = aiokafka_token_provider(access.oauth)
    context = client_context(access)
    if context is not None:
        settings["ssl_context"] = context
    return settings


def client_context(access: ClientAccess) -> SSLContext | None:
    """Return a context with the certificates of a cluster; None if clients need none."""
    if not access.uses_files:
        return None
    import ssl  # noqa: PLC0415 - only with TLS

    context = ssl.create_default_context(cafile=access.authority_file)
    if access.client_file is not None:
        context.load_cert_chain(access.client_file)
    return context


def _kafka_python(access: ClientAccess) -> dict[str, Any]:
    settings = _python(access)
    if access.oauth is not None:
        settings["sasl_oauth_token_provider"] = kafka_python_token_provider(access.oauth)
    if access.uses_files:
        settings["ssl_cafile"] = access.authority_file
        if access.client_file is not None:
            settings |= {"ssl_certfile": access.client_file, "ssl_keyfile": access.client_file}
    return settings


def _kafkajs(access: ClientAccess) -> dict[str, Any]:
    settings: dict[str, Any] = {"brokers": access.bootstrap_servers.split(",")}
    if access.uses_files:
        settings["ssl"] = _pem_texts(access)
    elif access.protocol.uses_tls:
        settings["ssl"] = True
    if access.oauth is not None:
        settings["sasl"] = {"mechanism": OAUTHBEARER.lower(), **access.oauth._asdict()}
    elif access.login is not None:
        settings["sasl"] = {
            "mechanism": access.login.mechanism.lower(),
            "username": access.login.user,
            "password": access.login.password,
        }
    return settings


def _pem_texts(access: ClientAccess) -> dict[str, Any]:
    """Return the options of Node.js for TLS."""
    options: dict[str, Any] = {"ca": [_text_of(access.authority_file)]}
    if access.client_file is not None:
        text = _text_of(access.client_file)
        options |= {"key": text, "cert": text}
    return options


def _text_of(path: str | None) -> str:
    assert path is not None
    return read_key_file(path).decode()


def _franz_go(access: ClientAccess) -> dict[str, Any]:
    """Return arguments for kgo.SeedBrokers, tls.Config and the package sasl."""
    settings: dict[str, Any] = {"seed_brokers": access.bootstrap_servers.split(",")}
    if access.protocol.uses_tls:
        settings["tls"] = {
            key: path
            for key, path in (
                ("ca_file", access.authority_file),
                ("cert_file", access.client_file),
                ("key_file", access.client_file),
            )
            if path is not None
        }
    if access.oauth is not None:
        settings["sasl"] = {"mechanism": OAUTHBEARER, **access.oauth._asdict()}
    elif access.login is not None:
        settings["sasl"] = {
            "user": access.login.user,
            "password": access.login.password,
            "mechanism": access.login.mechanism,
        }
    return settings


LIBRARIES: Final[Mapping[str, Callable[[ClientAccess], dict[str, Any]]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
    "kafkajs": _kafkajs,
    "franz-go": _franz_go,
}
"""Name of a library → function that returns its settings."""
