"""Certificates that a broker makes: their directory, names and settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.ports.key_files import modification_time_ns
from kafkalite.security.distinguished_name import names_of_pem
from kafkalite.server.broker import Broker
from kafkalite.server.generated_certificates import GeneratedCertificates, config_of
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
from tests.unit.security.issued_files import Files
from tests.unit.security.java_stores import PKCS12_KEY_STORE
from tests.unit.security.missing_extra import hide_cryptography

LISTEN = ("SSL://0.0.0.0:9093", "PLAINTEXT://inside.test:9092")
ADVERTISE = ("SSL://broker.test:9093",)


def generated(settings: Settings) -> GeneratedCertificates:
    return GeneratedCertificates(settings, settings.listeners)


def test_the_certificate_has_the_advertised_names(tmp_path: Path) -> None:
    settings = Settings(listen=LISTEN, advertise=ADVERTISE, data_directory=str(tmp_path / "data"))
    certificates = generated(settings)
    assert certificates.files.directory == settings.data_directory
    names = names_of_pem(Path(certificates.files.server).read_text())
    expected = {"broker.test", "localhost", "127.0.0.1", "::1"}
    assert names == ("CN=broker.test", frozenset(expected))
    certificates.remove()
    assert Path(certificates.files.server).exists()


def test_a_directory_can_be_given(tmp_path: Path) -> None:
    settings = Settings(listen=LISTEN, data_directory="/unused", tls=f"auto:{tmp_path / 'tls'}")
    assert config_of(generated(settings).files) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "tls" / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "tls" / "ca.pem"),
    }


def test_a_temporary_directory_is_removed() -> None:
    certificates = generated(Settings(listen=LISTEN, tls="auto"))
    assert Path(certificates.files.client).exists()
    certificates.remove()
    assert not Path(certificates.files.directory).exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(tls="auto"), "--tls needs a listener with TLS"),
        (Settings(listen=LISTEN, config={"ssl.keystore.type": "PEM"}), "ssl.keystore.type is set"),
        (
            Settings(
                listen=LISTEN, config={"listener.name.ssl.ssl.keystore.location": "/server.pem"}
            ),
            "--tls generates certificates, but listener.name.ssl.ssl.keystore.location is set",
        ),
        (Settings(listen=LISTEN, config={"ssl.truststore.type": "PEM"}), "truststore.type is set"),
        (Settings(listen=LISTEN, tls="auto:/dev/null/x"), "cannot use /dev/null"),
        (Settings(listen=LISTEN, advertise=("SSL://größe.test:1",)), "cannot have a name"),
    ],
)
def test_unusable_settings_are_rejected(settings: Settings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        generated(settings)


def test_certificates_need_the_extra_security(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_cryptography(monkeypatch)
    with pytest.raises(SettingsError, match=r"^generated certificates need pip install "):
        generated(Settings(listen=LISTEN, tls="auto"))


@pytest.mark.parametrize(
    ("config", "feature"),
    [
        ({"ssl.client.auth": "required"}, r"ssl\.client\.auth=required"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "storepass"}, "PKCS12 store: it"),
    ],
)
async def test_a_broker_does_not_start_without_the_extra_security(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: dict[str, str], feature: str
) -> None:
    files = Files(tmp_path)
    config = files.config() | config
    if config["ssl.keystore.type"] == "PKCS12":
        config["ssl.keystore.location"] = files.write("key.p12", PKCS12_KEY_STORE)
    hide_cryptography(monkeypatch)
    broker = Broker(Settings(listen=("SSL://127.0.0.1:0",), config=config), Log(Level.ERROR))
    with pytest.raises(SettingsError, match=f"{feature} needs pip install") as refused:
        await broker.start()
    assert "\n" not in str(refused.value)


async def test_a_broker_uses_and_removes_its_certificates() -> None:
    broker = Broker(Settings(listen=("SSL://127.0.0.1:0",), tls="auto"), Log(Level.ERROR))
    assert broker.certificate_files is None
    await broker.start()
    files = broker.certificate_files
    assert files is not None
    assert modification_time_ns(files.server) is not None
    await broker.stop(grace_s=0)
    assert modification_time_ns(files.directory) is None
    assert broker.certificate_files is None
