"""Users of a JAAS file: `--jaas`, and the file that KAFKA_OPTS names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.cli.login_file import with_login_file
from kafkalite.cli.main import main
from kafkalite.security.sasl.users import User
from kafkalite.server.settings import Settings, SettingsError
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = "org.apache.kafka.common.security"
_FILE = f"""KafkaServer {{
  {_PACKAGE}.plain.PlainLoginModule required username=admin password=x user_alice="a:b";
  {_PACKAGE}.scram.ScramLoginModule required username=admin password=secret;
}};"""
_SASL = Settings(listen=["SASL_PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:0"])


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "jaas.conf"
    file.write_text(_FILE)
    return str(file)


def java_options(path: object) -> str:
    return f"-Xmx1g -Djava.security.auth.login.config={path}"


def test_file_has_the_users_of_listeners_with_sasl(path: str) -> None:
    settings = with_login_file(_SASL, path)
    assert settings == with_login_file(_SASL, None, java_options(path))
    assert set(settings.config) == {
        f"listener.name.sasl_plaintext.{mechanism}.sasl.jaas.config"
        for mechanism in ("plain", "scram-sha-256", "scram-sha-512")
    }
    assert set(settings.users) == {
        User("admin", "secret", (mechanism,)) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    }


def test_clients_authenticate_as_users_of_the_file(path: str) -> None:
    config = with_login_file(_SASL, path).config
    with Broker(security="SASL_PLAINTEXT", config=config) as broker:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "a:b"}
        admin = AdminClient(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                **login,
            }
        )
        assert admin.list_topics(timeout=10).brokers


def test_users_and_settings_have_precedence_over_the_file(path: str) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    user = User("admin", "other", ("SCRAM-SHA-256",))
    given = _SASL._replace(users=(user,), config={key: "x"})
    settings = with_login_file(given, path, java_options("/none"))
    assert settings.config[key] == "x"
    assert settings.users == (user, User("admin", "secret", ("SCRAM-SHA-512",)))


def test_file_of_java_options_may_be_one_for_clients(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("KafkaClient { a.B required; };")
    plain = Settings(listen=["127.0.0.1:0"])
    with_user = _SASL._replace(users=(User("a", "b"),))
    for settings in (plain, with_user):
        assert with_login_file(settings, None, java_options(file)) is settings
    with pytest.raises(
        SettingsError, match=f"^KAFKA_OPTS: {file}: there is no section KafkaServer"
    ):
        with_login_file(_SASL, None, java_options(file))


def test_file_that_cannot_have_an_effect_is_an_error(path: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^--jaas needs a listener with SASL"):
        with_login_file(Settings(listen=["127.0.0.1:0"]), path)
    with pytest.raises(SettingsError, match=r"^--jaas: cannot read the file /none: No such file"):
        with_login_file(_SASL, "/none")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"^--jaas: .*/binary is not a text in UTF-8"):
        with_login_file(_SASL, str(binary))
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 16 * 1024 * 1024 + 1)
    with pytest.raises(SettingsError, match=r"/large has more than 16777216 characters$"):
        with_login_file(_SASL, str(large))


def test_serve_reads_the_file_of_java_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", java_options("/none"))
    with pytest.raises(SystemExit) as exited:
        main(["serve", "--listen", "SASL_PLAINTEXT://127.0.0.1:0"])
    assert exited.value.code == 2
    error = "KAFKA_OPTS: cannot read the file /none: No such file or directory\n"
    assert capsys.readouterr().err == f"kafkalite: {error}"
