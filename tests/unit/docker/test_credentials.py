"""Users, login modules and key stores from variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.credentials import (
    Credential,
    add_key_stores,
    add_logins,
    with_secret_files,
)
from kafkalite.docker.properties import Properties, VariableError, read_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

_SASL = {"KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092", "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN"}
_BITNAMI = {"KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://:9092"}
_TLS = {"KAFKA_LISTENERS": "SSL://:9093"}


def logins(
    environment: Mapping[str, str], files: Mapping[str, str] | None = None
) -> tuple[Properties, list[Credential]]:
    properties = read_properties(environment, {})
    return properties, add_logins(properties, environment, (files or {}).get)


def stores(environment: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    properties = read_properties(environment, {})
    add_key_stores(properties, environment, files.get)
    return {key: value for key, value in properties.values.items() if key.startswith("ssl.")}


def test_users_of_bitnami_have_their_passwords() -> None:
    _, users = logins({
        **_BITNAMI,
        "KAFKA_CLIENT_USERS": "alice, bob",
        "KAFKA_CLIENT_PASSWORDS": "a,b",
        "KAFKA_INTER_BROKER_USER": "admin",
        "KAFKA_INTER_BROKER_PASSWORD": "c",
    })  # fmt: skip
    assert [user.option for user in users] == ["alice:a", "bob:b", "admin:c"]
    assert "c" not in repr(users[2]).replace("Credential", "")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"KAFKA_CLIENT_PASSWORDS": "a"}, ["user:a"]),
        ({"KAFKA_CLIENT_USERS": "alice"}, ["alice:bitnami"]),
        ({"KAFKA_INTER_BROKER_PASSWORD": "a"}, ["user:a"]),
        ({"KAFKA_INTER_BROKER_USER": "admin"}, ["admin:bitnami"]),
        ({"KAFKA_CLIENT_USERS": "alice,bob", "KAFKA_CLIENT_PASSWORDS": "a,b",
          "KAFKA_INTER_BROKER_USER": "bob"}, ["alice:a", "bob:b"]),
    ],
)  # fmt: skip
def test_user_or_password_of_bitnami_has_a_default(
    variables: dict[str, str], expected: list[str]
) -> None:
    _, users = logins({**_BITNAMI, **variables})
    assert [user.option for user in users] == expected


def test_bitnami_has_a_default_user_and_default_mechanisms() -> None:
    properties, users = logins(_BITNAMI)
    assert users == [Credential("user", "bitnami")]
    assert properties.values["sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


def test_listeners_without_sasl_have_no_users() -> None:
    environment = {"KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092", "KAFKA_CLIENT_USERS": "alice"}
    assert logins(environment)[1] == []


def test_own_user_of_scram_can_log_in() -> None:
    _, users = logins({
        "KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256",
        "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___256_SASL_JAAS_CONFIG":
            "a.ScramLoginModule required username=admin password=x;",
    })  # fmt: skip
    assert users == [Credential("admin", "x", "SCRAM-SHA-256")]
    assert users[0].option == "admin:x:SCRAM-SHA-256"


def test_login_file_sets_the_module_of_each_listener() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties, _ = logins(
        {**_SASL, "KAFKA_OPTS": "-Djava.security.auth.login.config=/jaas.conf"},
        {"/jaas.conf": f"KafkaServer {{ {module} user_a=b; }};"},
    )
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    assert properties.values[key] == f'{module} user_a="b";'


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        ({**_BITNAMI, "KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "x"},
         "KAFKA_CLIENT_USERS has 2 users, but KAFKA_CLIENT_PASSWORDS has 1 passwords"),
        ({**_BITNAMI, "KAFKA_CLIENT_USERS": "a", "KAFKA_CLIENT_PASSWORDS": "x",
          "KAFKA_INTER_BROKER_USER": "a", "KAFKA_INTER_BROKER_PASSWORD": "y"},
         "KAFKA_INTER_BROKER_PASSWORD and KAFKA_CLIENT_PASSWORDS differ for 'a'"),
        ({**_BITNAMI, "KAFKA_CLIENT_USERS": "a:b", "KAFKA_CLIENT_PASSWORDS": "x"}, "has no colon"),
        ({**_SASL, "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,GSSAPI"},
         ("KAFKA_SASL_ENABLED_MECHANISMS: GSSAPI is not served; valid are SCRAM-SHA-512, "
         "SCRAM-SHA-256, PLAIN, OAUTHBEARER")),
        ({**_SASL, "KAFKA_OPTS": "-Djava.security.auth.login.config=/none"},
         "KAFKA_OPTS: cannot read /none"),
        ({**_SASL, "KAFKA_LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": "x"},
         ("there is no listener SASL, only SASL_PLAINTEXT; .* an underscore of a listener is "
         "doubled")),
    ],
)  # fmt: skip
def test_logins_that_contradict_each_other_are_refused(
    environment: dict[str, str], error: str
) -> None:
    with pytest.raises(VariableError, match=error):
        logins(environment)


def test_files_of_key_stores_are_in_the_directory_of_secrets() -> None:
    files = {
        "/etc/kafka/secrets/b.jks": "\0",
        "/etc/kafka/secrets/creds": "pw\n",
        "/etc/kafka/secrets/t.jks": "\0",
    }
    assert stores({
        **_TLS,
        "KAFKA_SSL_KEYSTORE_FILENAME": "b.jks",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "creds",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "t.jks",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_CLIENT_AUTH": "required",
    }, files) == {
        "ssl.keystore.location": "/etc/kafka/secrets/b.jks",
        "ssl.keystore.password": "pw",
        "ssl.key.password": "pw",
        "ssl.truststore.location": "/etc/kafka/secrets/t.jks",
        "ssl.truststore.password": "pw",
        "ssl.client.auth": "required",
    }  # fmt: skip


def test_missing_key_store_is_refused() -> None:
    with pytest.raises(VariableError, match=r"KAFKA_SSL_KEYSTORE_FILENAME: cannot read "
                       "/etc/kafka/secrets/b.jks; mount the file there"):  # fmt: skip
        stores({**_TLS, "KAFKA_SSL_KEYSTORE_FILENAME": "b.jks"}, {})


def test_bitnami_has_key_stores_in_its_directory_of_certificates() -> None:
    directory = "/opt/bitnami/kafka/config/certs"
    environment = {"KAFKA_CFG_LISTENERS": "SSL://:9093", "KAFKA_CERTIFICATE_PASSWORD": "pw"}
    files = {f"{directory}/kafka.keystore.jks": "\0", f"{directory}/kafka.truststore.jks": "\0"}
    assert stores(environment, files) == {
        "ssl.keystore.type": "JKS",
        "ssl.truststore.type": "JKS",
        "ssl.keystore.location": f"{directory}/kafka.keystore.jks",
        "ssl.keystore.password": "pw",
        "ssl.truststore.location": f"{directory}/kafka.truststore.jks",
        "ssl.truststore.password": "pw",
        "ssl.key.password": "pw",
        "ssl.client.auth": "required",
    }


def test_bitnami_has_pem_files() -> None:
    directory = "/bitnami/kafka/config/certs"
    environment = {
        "KAFKA_CFG_LISTENERS": "SSL://:9093",
        "KAFKA_TLS_TYPE": "PEM",
        "KAFKA_TLS_CLIENT_AUTH": "none",
    }
    files = {
        f"{directory}/kafka.keystore.pem": "chain",
        f"{directory}/kafka.keystore.key": "key",
        f"{directory}/kafka.truststore.pem": "authority",
    }
    assert stores(environment, files) == {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": "key",
        "ssl.truststore.certificates": "authority",
        "ssl.client.auth": "none",
    }
    with pytest.raises(VariableError, match="KAFKA_TLS_TYPE is JKS or PEM, not 'PFX'"):
        stores({**environment, "KAFKA_TLS_TYPE": "pfx"}, files)


def test_secret_files_have_the_values_of_variables() -> None:
    files = {"/run/secrets/p": "pw\n"}
    variables = with_secret_files({"KAFKA_CLIENT_PASSWORDS_FILE": "/run/secrets/p"}, files.get)
    assert variables["KAFKA_CLIENT_PASSWORDS"] == "pw"
    with pytest.raises(VariableError, match="cannot read /run/secrets/p"):
        with_secret_files({"KAFKA_CLIENT_PASSWORDS_FILE": "/run/secrets/p"}, lambda _: None)
    with pytest.raises(VariableError, match="are both set: remove one"):
        with_secret_files(
            {"KAFKA_CLIENT_PASSWORDS": "a", "KAFKA_CLIENT_PASSWORDS_FILE": "/run/secrets/p"},
            files.get,
        )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("KafkaClient { a.B required; };", "there is no section KafkaServer"),
        ('KafkaServer { a.B required x="secret };', "line 1: the JAAS config has a text without"),
    ],
)
def test_invalid_login_file_is_refused(text: str, error: str) -> None:
    environment = {**_SASL, "KAFKA_OPTS": "-Djava.security.auth.login.config=/jaas.conf"}
    with pytest.raises(VariableError, match=rf"/jaas\.conf: {error}") as raised:
        logins(environment, {"/jaas.conf": text})
    assert "secret" not in str(raised.value)


def test_listener_with_own_users_needs_no_section_in_the_login_file() -> None:
    key = "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG"
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    environment = {
        **_SASL,
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/jaas.conf",
        key: module,
    }
    properties, _ = logins(environment, {"/jaas.conf": "KafkaClient { a.B required; };"})
    assert properties.values["listener.name.sasl_plaintext.plain.sasl.jaas.config"] == module
