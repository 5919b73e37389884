"""Contracts of the images: their environments start the broker that they describe."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cli import process
from kafkalite.cli.main import CommandParser
from kafkalite.cli.serve import add_options
from kafkalite.client import Access, Login, PartitionConsumer, Producer, TopicPartition, connection
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import connect
from kafkalite.docker.start import plan_from, topic_creator
from kafkalite.docker.variables import Image
from kafkalite.server.addresses import Address
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from tests.unit.docker.environments import FORMS, HOSTNAME, Form

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalite.docker.start import Plan
    from kafkalite.server.settings import Settings

_resolve = socket.getaddrinfo


@pytest.fixture(autouse=True)
def names_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every host name be this machine, as in the network of a compose file."""

    def resolve(host: str | bytes | None, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as socket's
        text = host.decode() if isinstance(host, bytes) else host
        is_here = text in (None, "localhost") or ":" in str(text)
        return _resolve(host if is_here else "127.0.0.1", *arguments, **keywords)

    async def connect_here(protocol: Any, address: Address, tls: Any) -> Any:  # noqa: ANN401
        here = address.host if address.host == "localhost" else "127.0.0.1"
        return await connect(protocol, address._replace(host=here), tls)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(connection, "connect", connect_here)


@pytest.fixture
def free_port() -> Callable[[str], str]:
    """Return a function from a port in an environment to a free port of this machine."""
    sockets: dict[str, int] = {}

    def free(port: str) -> str:
        if port not in sockets:
            with socket.create_server(("127.0.0.1", 0)) as server:
                sockets[port] = server.getsockname()[1]
        return str(sockets[port])

    return free


def plan_of(form: Form, root: Path) -> Plan:
    for path, text in form.files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return plan_from({**form.environment, "KAFKALITE_ROOT": str(root)}, HOSTNAME)


def settings_of(plan: Plan, free: Callable[[str], str]) -> Settings:
    """Return the settings of `kafkalite serve`, with free ports in place of those of the form."""
    arguments = [
        re.sub(r":(\d+)(?=,|$)", lambda match: f":{free(match[1])}", text)
        if text.startswith(("--config=listeners=", "--config=advertised.listeners="))
        else text
        for text in plan.arguments
    ]
    parser = CommandParser()
    add_options(parser)
    return process.settings_from(parser.parse_args(arguments), Log(Level.ERROR))


async def exchange_record(address: str, access: Access) -> None:
    """Send a record through the address and its advertised address, and receive it."""
    partition = TopicPartition("exchanged", 0)
    async with KafkaClient([Address.parse(address)], access) as client:
        await client.check_reachable()
    async with Producer(address, access=access) as producer:
        sent = await producer.send(partition, address.encode())
    async with PartitionConsumer(address, access=access, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, sent.first_offset)
        (record,) = await consumer.poll(10_000)
        assert record.value == address.encode()


async def check_broker(form: Form, plan: Plan, free: Callable[[str], str]) -> None:
    settings = settings_of(plan, free)
    settings = settings._replace(topics={**settings.topics, "exchanged": 1})
    broker = Broker(settings, Log(Level.ERROR), prepare=topic_creator(plan.translation.topics))
    await broker.start()
    try:
        assert broker.cluster_id == form.cluster_id or form.cluster_id is None
        assert broker.cluster is not None
        image = broker.cluster.metadata.image
        assert {name: len(image.topics[name].partitions) for name in form.topics} == form.topics
        protocols = broker.protocol_by_listener()
        for spec in settings.listeners:
            if spec.name not in form.advertised:
                continue
            host, _, port = form.advertised[spec.name].rpartition(":")
            advertised = f"{host}:{free(port)}"
            assert broker.bootstrap_by_listener()[spec.name] == advertised
            login = Login(*form.login) if form.login else None
            access = Access(login=login if protocols[spec.name].uses_sasl else None)
            await exchange_record(f"127.0.0.1:{spec.listen_address.port}", access)
    finally:
        await broker.stop()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.image.value}: {form.name}")
def test_environment_starts_the_broker_that_it_describes(
    form: Form, tmp_path: Path, free_port: Callable[[str], str]
) -> None:
    plan = plan_of(form, tmp_path)
    names = {spec.name for spec in plan.settings.listeners}
    assert names >= form.advertised.keys()
    translation = plan.translation
    assert form.config.items() <= translation.config.items()
    assert any("ZooKeeper" in notice for notice in translation.notices) is form.has_zookeeper
    asyncio.run(check_broker(form, plan, free_port))


def test_there_are_forms_of_every_image() -> None:
    assert {form.image for form in FORMS} == set(Image)
    assert len(FORMS) >= 30
