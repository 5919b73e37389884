"""Assembly: settings that are checked, and the cluster in a data directory."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cluster.cluster import TopicError
from kafkalite.cluster.node_control import NodeError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.sasl_classes import SIGNED_TOKEN_HANDLERS
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.sasl.users import User
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.generated_certificates import GeneratedCertificates, config_of
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
from tests.oracle.target import free_port
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.protocol.errors import KafkaError


ANY_PORT = ("127.0.0.1:0",)
KEYS_THREAD = "kafkalite-token-keys"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 3}))
    await broker.start()
    yield broker
    await broker.stop(grace_s=0.1)


def path_exists(path: str) -> bool:
    return Path(path).exists()


async def test_a_temporary_broker_does_not_sync_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Temporary data need not survive a loss of power, and syncs take time."""
    synced: list[int] = []
    monkeypatch.setattr("kafkalite.ports.system.sync_data", synced.append)
    monkeypatch.setattr("os.fsync", synced.append)
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 1}))
    await broker.start()
    await broker.stop(grace_s=0)
    assert synced == []


async def test_topics_and_the_cluster_survive_a_restart(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"stored": 2})
    cluster_ids = set()
    topic_ids: set[tuple[str, bytes]] = set()
    for _ in range(2):
        broker = Broker(settings)
        await broker.start()
        client = await Client.to(broker.bootstrap_servers)
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        cluster_ids.add(metadata.cluster_id)
        topic_ids.update((each.name, each.topic_id) for each in metadata.topics)
        await client.close()
        await broker.stop()
    assert len(cluster_ids) == 1
    assert [name for name, _ in topic_ids] == ["stored"]


async def test_a_download_of_keys_that_hangs_delays_neither_start_nor_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
        settings = Settings(
            listen=("SASL_PLAINTEXT://127.0.0.1:0",),
            config={
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{prefix}.server.callback.handler.class": SIGNED_TOKEN_HANDLERS[0],
                f"{prefix}.oauthbearer.jwks.endpoint.url": (
                    f"http://127.0.0.1:{server.getsockname()[1]}/"
                ),
                "sasl.oauthbearer.allow.unverified.audience": "true",
                "sasl.oauthbearer.allow.unverified.issuer": "true",
            },
        )
        output = io.StringIO()
        broker = Broker(settings, Log(Level.INFO, "json", output))
        await broker.start()
        threads = [each for each in threading.enumerate() if each.name == KEYS_THREAD]
        assert len(threads) == 1
        await broker.stop(grace_s=0.1)
        assert threads[0].is_alive()
    threads[0].join()
    assert "the listener expects no audience of signed tokens" in output.getvalue()
    assert "cannot be loaded" not in output.getvalue()


def settings_with(**settings: Any) -> Settings:  # noqa: ANN401
    return Settings(**{"listen": ANY_PORT, **settings})


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (settings_with(listen=("nowhere",)), AddressError),
        (settings_with(listen=("203.0.113.77:0",)), AddressError),
        (settings_with(config={"no.such.setting": "1"}), ConfigError),
        (settings_with(config={"num.partitions": "many"}), ConfigError),
        (settings_with(config={"node.id": "x"}), SettingsError),
        (settings_with(data_directory="/dev/null/data"), BrokerDirectoryError),
        (settings_with(topics={"bad name": 1}), TopicError),
        (settings_with(topics={"t": 20_000}), TopicError),
    ],
)
async def test_a_failed_start_has_a_reason_in_one_line(
    settings: Settings, kind: type[Exception]
) -> None:
    broker = Broker(settings)
    with pytest.raises(kind) as refusal:
        await broker.start()
    assert str(refusal.value)
    assert "\n" not in str(refusal.value)


SASL_LISTENER = ("SASL_PLAINTEXT://127.0.0.1:0",)
PLAIN_REAUTH = "listener.name.sasl_plaintext.plain.connections.max.reauth.ms"


def _set(broker: Broker, key: str, value: str) -> KafkaError | None:
    assert broker.cluster is not None
    resource = ConfigResource(ResourceType.BROKER, "1")
    change = ConfigChange(key, AlterOperation.SET, value)
    return broker.cluster.metadata.alter_configs({resource: [change]})[resource]


async def test_an_invalid_dynamic_setting_of_sasl_is_refused() -> None:
    broker = Broker(settings_with(listen=SASL_LISTENER, users=[User("alice", "secret")]))
    await broker.start()
    error = _set(broker, PLAIN_REAUTH, "abc")
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert "Invalid value abc" in str(error.message)
    assert _set(broker, PLAIN_REAUTH, "5") is None
    await broker.stop()


async def test_an_invalid_stored_setting_of_sasl_does_not_prevent_a_start(tmp_path: Path) -> None:
    settings = settings_with(
        listen=SASL_LISTENER, users=[User("alice", "secret")], data_directory=str(tmp_path)
    )
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    broker.cluster.config.dynamic_checks.clear()
    assert _set(broker, PLAIN_REAUTH, "abc") is None
    await broker.stop()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.ERROR, "json", log_output))
    await broker.start()
    for _ in range(2):
        client = await Client.to(broker.bootstrap_servers)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
        assert (await client.ask(request, 2)).error_code == 0
        await client.close()
    (line,) = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert line["event"] == "the former SASL settings remain in use"
    assert "connections.max.reauth.ms" in line["reason"]
    await broker.stop()


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, ConfigError),
        ({PLAIN_REAUTH: "abc"}, ConfigError),
        (
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "mallory",
            },
            SettingsError,
        ),
    ],
)
async def test_security_settings_are_checked_before_data_is_written(
    tmp_path: Path, config: dict[str, str], kind: type[Exception]
) -> None:
    settings = settings_with(
        listen=SASL_LISTENER, config=config, topics={"t": 1}, data_directory=str(tmp_path / "data")
    )
    with pytest.raises(kind):
        await Broker(settings).start()
    assert not path_exists(str(tmp_path / "data"))


async def test_an_unknown_user_of_scram_has_the_same_salt_on_all_listeners() -> None:
    settings = settings_with(
        listen=("SASL_PLAINTEXT://127.0.0.1:0", "INTERNAL://127.0.0.1:0"),
        config={"listener.security.protocol.map": (
            "SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT"
        )},
        brokers=2,
    )  # fmt: skip
    broker = Broker(settings)
    await broker.start()
    salts = []
    for servers in broker.bootstrap_by_listener().values():
        for address in servers.split(","):
            client = await Client.to(address)
            await client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            first = SaslAuthenticateRequest(auth_bytes=b"n,,n=mallory,r=abc")
            answer = bytes((await client.ask(first, 2)).auth_bytes).decode()
            salts.append(answer.split(",", 1)[1])
            await client.close()
    assert len(salts) == 4
    assert len(set(salts)) == 1
    await broker.stop()


async def test_a_topic_with_another_number_of_partitions_is_reported(tmp_path: Path) -> None:
    directory = str(tmp_path)
    broker = Broker(Settings(listen=ANY_PORT, data_directory=directory, topics={"t": 2}))
    await broker.start()
    await broker.stop()
    with pytest.raises(TopicError, match="t exists with 2 partitions"):
        await Broker(Settings(listen=ANY_PORT, data_directory=directory, topics={"t": 3})).start()


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the files of a data directory: path → bytes."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_a_release_that_does_not_support_a_level_leaves_the_directory_as_it_was(
    tmp_path: Path,
) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path))
    broker = Broker(settings)
    await broker.start()
    await broker.stop(grace_s=0.1)
    before = files_in(tmp_path)
    text = (
        r"^cannot use .*: metadata\.version is at level 33, but Kafka 4\.1 has levels 7 to 27, and"
    )
    with pytest.raises(BrokerDirectoryError, match=text):
        await Broker(settings._replace(as_version="4.1")).start()
    assert files_in(tmp_path) == before
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    assert broker.cluster.metadata.image.features["metadata.version"] == 33
    await broker.stop(grace_s=0.1)


async def test_a_node_has_its_own_certificate(tmp_path: Path) -> None:
    settings = settings_with(listen=("SSL://127.0.0.1:0",), tls=f"auto:{tmp_path}/other")
    other = GeneratedCertificates(settings, settings.listeners)
    broker = Broker(
        settings._replace(
            brokers=2, tls=f"auto:{tmp_path}/all", node_config={2: config_of(other.files)}
        )
    )
    await broker.start()
    first, second = [
        await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", int(port)))
        for _, _, port in (each.rpartition(":") for each in broker.bootstrap_servers.split(","))
    ]
    await broker.stop(grace_s=0)
    chains = [(tmp_path / name / "server.pem").read_text() for name in ("all", "other")]
    assert [first.strip() in chains[0], second.strip() in chains[1]] == [True, True]
    assert first != second


async def test_an_added_node_has_its_own_certificate_also_after_a_restart(tmp_path: Path) -> None:
    settings = settings_with(
        listen=(f"SSL://127.0.0.1:{free_port(2)}",), data_directory=str(tmp_path / "data")
    )
    other = GeneratedCertificates(
        settings._replace(tls=f"auto:{tmp_path}/other"), settings.listeners
    )
    for start in range(2):
        broker = Broker(settings._replace(tls=f"auto:{tmp_path}/all"))
        await broker.start()
        if start == 0:
            with pytest.raises(NodeError, match=r"/no/such\.pem"):
                await broker.nodes.add(None, {"ssl.keystore.location": "/no/such.pem"})
            assert await broker.nodes.add(None, config_of(other.files)) == 2
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        found = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
        await broker.stop(grace_s=0)
        assert found.strip() in (tmp_path / "other" / "server.pem").read_text()


async def test_a_node_has_its_own_settings_of_sasl() -> None:
    settings = settings_with(
        listen=("SASL_PLAINTEXT://127.0.0.1:0",),
        brokers=3,
        node_config={
            2: {"sasl.enabled.mechanisms": "SCRAM-SHA-512"},
            3: {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN"},
        },
    )
    broker = Broker(settings)
    await broker.start()
    mechanisms = []
    for address in broker.bootstrap_servers.split(","):
        client = await Client.to(address)
        answer = await client.ask(SaslHandshakeRequest(mechanism="none"), 1)
        mechanisms.append(list(answer.mechanisms))
        await client.close()
    assert len(mechanisms[0]) > 1
    assert mechanisms[1:] == [["SCRAM-SHA-512"], ["PLAIN"]]
    await broker.stop(grace_s=0)


async def test_invalid_settings_of_sasl_of_a_node_stop_the_start() -> None:
    settings = settings_with(
        listen=("SASL_PLAINTEXT://127.0.0.1:0",),
        node_config={1: {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "nonsense"}},
    )
    with pytest.raises((ConfigError, SettingsError), match=r"jaas\.config"):
        await Broker(settings).start()
