"""Settings of client libraries for each security protocol."""

from __future__ import annotations

import json
import ssl
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.client.access import Login
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.sasl.jaas import parse_jaas
from kafkalite.testing.client_settings import (
    LIBRARIES,
    ClientAccess,
    client_settings,
    jaas_config,
)
from kafkalite.testing.token_providers import OAuthLogin
from tests.unit.security.issued_files import Files, authority, client

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = Login("SCRAM-SHA-512", "alice", 'se"cret\\')


@pytest.fixture
def secured(tmp_path: Path) -> ClientAccess:
    files = Files(tmp_path)
    client_file = files.write("client.pem", authority().chain_pem(client()))
    return ClientAccess("h:1,h:2", SecurityProtocol.SASL_SSL, files.authority, client_file, LOGIN)


PLAIN: dict[str, dict[str, Any]] = {
    "librdkafka": {"bootstrap.servers": "h:1", "security.protocol": "PLAINTEXT"},
    "java": {"bootstrap.servers": "h:1", "security.protocol": "PLAINTEXT"},
    "aiokafka": {"bootstrap_servers": "h:1", "security_protocol": "PLAINTEXT"},
    "kafka-python": {"bootstrap_servers": "h:1", "security_protocol": "PLAINTEXT"},
    "kafkajs": {"brokers": ["h:1"]},
    "franz-go": {"seed_brokers": ["h:1"]},
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_plain_listener_needs_its_address_only(library: str) -> None:
    assert client_settings(library, ClientAccess("h:1")) == PLAIN[library]


def test_librdkafka(secured: ClientAccess) -> None:
    assert client_settings("librdkafka", secured) == {
        "bootstrap.servers": "h:1,h:2",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": secured.authority_file,
        "ssl.certificate.location": secured.client_file,
        "ssl.key.location": secured.client_file,
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": LOGIN.user,
        "sasl.password": LOGIN.password,
    }


def test_java(secured: ClientAccess) -> None:
    assert client_settings("java", secured) == {
        "bootstrap.servers": "h:1,h:2",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.authority_file,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": secured.client_file,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas_config(LOGIN),
    }


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_without_a_certificate_has_no_settings_for_it(
    library: str, secured: ClientAccess
) -> None:
    settings = client_settings(library, secured._replace(client_file=None))
    flat = {**settings, **settings.get("ssl", {}), **settings.get("tls", {})}
    assert None not in flat.values()
    with_certificate = client_settings(library, secured)
    nested = {**with_certificate.get("ssl", {}), **with_certificate.get("tls", {})}
    omitted = {*with_certificate, *nested} - {*flat}
    assert all("key" in name or "cert" in name for name in omitted)
    assert bool(omitted) is (library != "aiokafka")  # it has them in a context


def test_jaas_texts_have_the_module_of_the_mechanism() -> None:
    assert jaas_config(LOGIN) == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="se\\"cret\\\\";'
    )
    assert jaas_config(replace(LOGIN, mechanism="PLAIN")).startswith(
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
    )


def test_python_libraries(secured: ClientAccess) -> None:
    common = {
        "bootstrap_servers": "h:1,h:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": LOGIN.user,
        "sasl_plain_password": LOGIN.password,
    }
    assert client_settings("kafka-python", secured) == {
        **common,
        "ssl_cafile": secured.authority_file,
        "ssl_certfile": secured.client_file,
        "ssl_keyfile": secured.client_file,
    }
    settings = client_settings("aiokafka", secured)
    context = settings.pop("ssl_context")
    assert settings == common
    assert isinstance(context, ssl.SSLContext)
    (trusted,) = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "authority"),),)


def test_kafkajs_and_franz_go_can_be_passed_as_json(secured: ClientAccess) -> None:
    kafkajs, franz_go = (client_settings(each, secured) for each in ("kafkajs", "franz-go"))
    assert json.loads(json.dumps(kafkajs)) == kafkajs
    assert kafkajs["ssl"]["ca"] == [authority().pem.decode()]
    assert "PRIVATE KEY" in kafkajs["ssl"]["key"]
    assert kafkajs["sasl"]["mechanism"] == "scram-sha-512"
    assert json.loads(json.dumps(franz_go)) == franz_go
    assert franz_go["tls"] == {
        "ca_file": secured.authority_file,
        "cert_file": secured.client_file,
        "key_file": secured.client_file,
    }
    assert franz_go["sasl"] == asdict(LOGIN)


def test_kafkajs_uses_the_authorities_of_the_system_without_files() -> None:
    access = ClientAccess("h:1", SecurityProtocol.SSL)
    assert client_settings("kafkajs", access)["ssl"] is True
    assert "ssl_context" not in client_settings("aiokafka", access)


def test_an_unknown_library_is_rejected() -> None:
    with pytest.raises(ValueError, match="library 'kcat' is not one of librdkafka, java"):
        client_settings("kcat", ClientAccess("h:1"))


OAUTH = OAuthLogin("http://idp:9098/token", "billing", 'se"cret')


def test_clients_request_tokens(secured: ClientAccess) -> None:
    access = secured._replace(oauth=OAUTH, login=None)
    librdkafka = client_settings("librdkafka", access)
    assert (
        librdkafka.items()
        >= {
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": OAUTH.token_endpoint,
            "sasl.oauthbearer.client.id": "billing",
            "sasl.oauthbearer.client.secret": 'se"cret',
        }.items()
    )
    java = client_settings("java", access)
    assert java["sasl.oauthbearer.token.endpoint.url"] == OAUTH.token_endpoint
    module = parse_jaas(java["sasl.jaas.config"])
    assert module.options == {"clientId": "billing", "clientSecret": 'se"cret'}
    for library in ("kafkajs", "franz-go"):
        sasl = json.loads(json.dumps(client_settings(library, access)))["sasl"]
        assert sasl.pop("mechanism").upper() == "OAUTHBEARER"
        assert sasl == OAUTH._asdict()
    python = client_settings("aiokafka", access)
    assert python["sasl_mechanism"] == "OAUTHBEARER"
    assert callable(python["sasl_oauth_token_provider"].token)
